// Work of a thread that is done apart: with the thread's own memory, and a table of descriptors of its own.
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <csignal>
#include <stdexcept>
#include <thread>

#include "src/base/apart.h"
#include "src/base/guard.h"
#include "tests/support/skip.h"

namespace memo {
namespace {

// In a thread of its own, where all signals are blocked.
template <typename Work>
void run_apart(Work work) {
  std::thread([&] {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, nullptr);
    os::Apart apart;
    struct Both {
      os::Apart& apart;
      Work& work;
    } both{apart, work};
    apart.run(
        [](void* argument) {
          static_cast<Both*>(argument)->work(static_cast<Both*>(argument)->apart);
        },
        &both);
  }).join();
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
    struct Step {
      int* ends;
      bool& back;
    } step{ends, back};
    apart.step_back(
        [](void* argument) {
          auto& here = *static_cast<Step*>(argument);
          here.back = fcntl(here.ends[0], F_GETFD) >= 0 && close(here.ends[1]) == 0;
        },
        &step);
    held_again = fcntl(ends[0], F_GETFD) >= 0;
  });
  char byte = 0;
  CHECK(back);
  CHECK(read(ends[0], &byte, 1) == 0);
  close(ends[0]);
#ifndef MEMO_TSAN
  CHECK_FALSE(held);
  CHECK_FALSE(held_again);
#endif
}

TEST_CASE("apart: the thread's own storage is there, and exceptions are thrown and caught",
          "[base]") {
  const ThreadState* states[2] = {};
  bool caught = false;
  long numbers[3] = {};
  std::thread([&] {
    states[0] = &t_state;
    numbers[0] = syscall(SYS_gettid);
    errno = EDOM;
    struct Seen {
      const ThreadState*& state;
      bool& caught;
      long& number;
    } seen{states[1], caught, numbers[1]};
    os::Apart().run(
        [](void* argument) {
          auto& all = *static_cast<Seen*>(argument);
          all.state = &t_state;
          all.number = syscall(SYS_gettid);
          errno = ERANGE;
          try {
            throw std::runtime_error("here");
          } catch (const std::exception&) {
            all.caught = true;
          }
        },
        &seen);
    CHECK(errno == EDOM);
    numbers[2] = syscall(SYS_gettid);
  }).join();
  CHECK(states[0] == states[1]);
  CHECK(caught);
  CHECK(numbers[0] == numbers[2]);
#ifndef MEMO_TSAN
  CHECK(numbers[0] != numbers[1]);
#endif
}

}  // namespace
}  // namespace memo
