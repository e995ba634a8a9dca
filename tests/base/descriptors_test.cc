// A thread's own table of file descriptors, and how it reaches the process' standard error.
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <string>
#include <thread>

#include "src/base/descriptors.h"
#include "src/base/message.h"
#include "tests/support/process.h"
#include "tests/support/skip.h"

namespace memo {
namespace {

TEST_CASE("os: what a thread with descriptors of its own opens and closes is nobody else's",
          "[base]") {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  bool own = false;
  int opened = -1;
  bool shared_before = false;
  bool writable = false;
  bool held = false;
  std::thread([&] {
    shared_before = fcntl(ends[0], F_GETFD) >= 0;
    own = os::own_descriptors();
    writable = write(STDERR_FILENO, "", 1) == 1 || write(STDOUT_FILENO, "", 1) == 1;
    opened = open("/dev/null", O_RDONLY);
    held = fcntl(ends[0], F_GETFD) >= 0 && ends[0] != opened;
  }).join();
  close(ends[1]);
  char byte = 0;
  const bool ended = read(ends[0], &byte, 1) == 0;
  close(ends[0]);
  if (!own) {
    return testing::skip("kernels before 5.9 give a thread no descriptors of its own");
  }
  CHECK(shared_before);
  CHECK_FALSE(writable);
  CHECK_FALSE(held);
  CHECK(opened > STDERR_FILENO);
  CHECK(ended);
  // The number is free here, since it was another table's.
  const int here = open("/dev/null", O_RDONLY);
  CHECK(here <= opened);
  close(here);
}

// What a thread with descriptors of its own says arrives at `reader` where `stream` is the process'
// standard error. In a child, since every message of a process asks what it was at load.
std::string said_to(int stream, int reader) {
  testing::status_of_child([&] {
    dup2(stream, STDERR_FILENO);
    os::note_stderr();
    std::thread([] {
      os::own_descriptors();
      Line() << "from a thread of its own";
    }).join();
    return 0;
  });
  close(stream);
  char text[100];
  const ssize_t count = read(reader, text, sizeof text);
  close(reader);
  return {text, count > 0 ? static_cast<std::size_t>(count) : 0};
}

TEST_CASE("os: a thread with descriptors of its own speaks by the program's", "[base]") {
  const std::string line = "memomalloc: from a thread of its own\n";
  int ends[2];
  SECTION("a pipe") {
    REQUIRE(pipe(ends) == 0);
    CHECK(said_to(ends[1], ends[0]) == line);
  }
  SECTION("a socket, as a service's is") {
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    CHECK(said_to(ends[1], ends[0]) == line);
  }
}

}  // namespace
}  // namespace memo
