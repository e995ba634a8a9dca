// A thread's own table of file descriptors (os::own_descriptors).
#include <fcntl.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <string>
#include <thread>

#include "src/base/os.h"
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
  bool standard = false;
  std::thread([&] {
    shared_before = fcntl(ends[0], F_GETFD) >= 0;
    own = os::own_descriptors();
    standard = fcntl(STDERR_FILENO, F_GETFD) >= 0;
    opened = open("/dev/null", O_RDONLY);
    // No end of the pipe is held open by the thread, though it has not closed any.
    if (own && fcntl(ends[0], F_GETFD) >= 0 && ends[0] != opened) {
      own = false;
    }
  }).join();
  close(ends[1]);
  char byte = 0;
  const bool ended = read(ends[0], &byte, 1) == 0;
  close(ends[0]);
  if (!own) {
    return testing::skip("kernels before 5.9 give a thread no descriptors of its own");
  }
  CHECK(shared_before);
  CHECK(standard);
  CHECK(opened >= 0);
  CHECK(ended);
  // The number is free here, since it was another table's.
  const int here = open("/dev/null", O_RDONLY);
  CHECK(here <= opened);
  close(here);
}

}  // namespace
}  // namespace memo
