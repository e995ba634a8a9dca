// os::Apart runs work with signals blocked, its own table of descriptors, and the process' user.
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <csignal>
#include <stdexcept>

#include "src/base/own_thread.h"
#include "tests/support/process.h"
#include "tests/support/skip.h"

namespace memo {
namespace {

template <typename Work>
void run_apart(Work work) {
  os::Apart apart;
  struct Both {
    os::Apart& apart;
    Work& work;
  } both{apart, work};
  apart.run(
      [](void* argument, const RecursionGuard&) {
        static_cast<Both*>(argument)->work(static_cast<Both*>(argument)->apart);
      },
      &both);
}

template <typename Work>
void step_back(os::Apart& apart, Work work) {
  apart.step_back([](void* argument, const RecursionGuard&) { (*static_cast<Work*>(argument))(); },
                  &work);
}

TEST_CASE("apart: what is opened is nobody else's, and a step back has the process' descriptors",
          "[base]") {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  bool held = true;
  bool back = false;
  bool held_again = true;
  run_apart([&](os::Apart& apart) {
    held = fcntl(ends[0], F_GETFD) >= 0;
    step_back(apart, [&] { back = fcntl(ends[0], F_GETFD) >= 0 && close(ends[1]) == 0; });
    held_again = fcntl(ends[0], F_GETFD) >= 0;
  });
  char byte = 0;
  CHECK(back);
  CHECK(::read(ends[0], &byte, 1) == 0);
  close(ends[0]);
#ifndef MEMO_TSAN
  CHECK_FALSE(held);
  CHECK_FALSE(held_again);
#endif
}

TEST_CASE("apart: errno and signals are the program's, and exceptions are thrown and caught",
          "[base]") {
  bool caught = false;
  bool blocked = false;
  long number = 0;
  errno = EDOM;
  run_apart([&](os::Apart&) {
    sigset_t now;
    blocked = pthread_sigmask(SIG_BLOCK, nullptr, &now) == 0 && sigismember(&now, SIGTERM) == 1;
    number = syscall(SYS_gettid);
    errno = ERANGE;
    try {
      throw std::runtime_error("here");
    } catch (const std::exception&) {
      caught = true;
    }
  });
  CHECK(errno == EDOM);
  CHECK(caught);
#ifndef MEMO_TSAN
  CHECK(blocked);
  CHECK(number != syscall(SYS_gettid));
#endif
}

TEST_CASE("apart: the work has the user that the process has changed to", "[base]") {
  if (geteuid() != 0) {
    return testing::skip("only root can change its user");
  }
  const int status = status_of_child([] {
    uid_t users[3] = {};
    bool changed = false;
    run_apart([&](os::Apart& apart) {
      step_back(apart, [&] { changed = setresuid(65534, 65534, 65534) == 0; });
      syscall(SYS_getresuid, &users[0], &users[1], &users[2]);
    });
    return changed && users[0] == 65534 && users[1] == 65534 && users[2] == 65534 ? 0 : 1;
  });
  CHECK(status == 0);
}

}  // namespace
}  // namespace memo
