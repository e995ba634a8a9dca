// Locks: threads kept apart, no waiting for oneself, an end to waiting for others; and the mark
// that tells a forked child.
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <csignal>
#include <cstdint>
#include <thread>
#include <vector>

#include "src/base/fork_mark.h"
#include "src/base/interrupts.h"
#include "src/base/lock.h"
#include "src/base/os.h"
#include "tests/support/process.h"

namespace memo {
namespace {

using testing::in_thread;

using os::kMillisecond;

// Runs `function` while another thread holds the lock.
template <typename Function>
void while_another_holds(Lock& lock, Function&& function) {
  std::atomic<int> stage{0};
  std::thread holder([&] {
    while (!lock.try_lock()) {
    }
    stage = 1;
    while (stage == 1) {
      os::rest();
    }
    lock.unlock();
  });
  while (stage == 0) {
    os::rest();
  }
  function();
  stage = 2;
  holder.join();
}

// How often the calling thread has slept so far.
long sleeps() {
  rusage usage{};
  REQUIRE(getrusage(RUSAGE_THREAD, &usage) == 0);
  return usage.ru_nvcsw;
}

TEST_CASE("lock: keeps threads apart", "[base]") {
  Lock lock;
  std::uint64_t sum = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 5000; ++j) {
        for (bool done = false; !done;) {
          const WaitLock held(lock, Lock::Patience::kFork);
          sum += held ? 1U : 0U;
          done = static_cast<bool>(held);
        }
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  CHECK(sum == 20000);
}

TEST_CASE("lock: can be tried, and a failed try does not unlock", "[base]") {
  Lock lock;
  const TryLock first(lock);
  CHECK(first);
  {
    const TryLock second(lock);
    CHECK_FALSE(second);
  }
  CHECK_FALSE(lock.try_lock());
}

TEST_CASE("lock: who has it already is told at once, however patient", "[base]") {
  Lock lock;
  REQUIRE(lock.try_lock());
  CHECK(lock.held_by_me());
  CHECK_FALSE(lock.held_by_another());
  CHECK_FALSE(lock.lock_within(Lock::Patience::kFork));
  // It was not given up, as after a wait: another still waits for it.
  std::atomic<bool> got{false};
  std::thread other([&] { got = lock.lock_within(Lock::Patience::kFork); });
  os::rest(20 * kMillisecond);
  CHECK_FALSE(got);
  lock.unlock();
  other.join();
  CHECK(got);
  CHECK(lock.held_by_another());  // by a thread that has ended
}

TEST_CASE("lock: another is waited for, but not for ever, and not twice", "[base]") {
  Lock lock;
  while_another_holds(lock, [&] {
    CHECK(lock.held_by_another());
    const Nanos start = os::nanoseconds();
    CHECK_FALSE(lock.lock_within(Lock::Patience::kCall));
    CHECK(os::nanoseconds() - start >= 2 * kMillisecond);
    // From now on the owner counts as gone for calls, not for forks. 200 waits would take 400 ms.
    const Nanos again = os::nanoseconds();
    for (int i = 0; i < 200; ++i) {
      CHECK_FALSE(lock.lock_within(Lock::Patience::kCall));
    }
    CHECK(os::nanoseconds() - again < 400 * kMillisecond);
    const Nanos fork = os::nanoseconds();
    const long before = sleeps();
    CHECK_FALSE(lock.lock_within(Lock::Patience::kFork));
    CHECK(os::nanoseconds() - fork >= 1000 * kMillisecond);
    CHECK(sleeps() - before <= 1100);  // each is a millisecond at least
    const Nanos second = os::nanoseconds();
    CHECK_FALSE(lock.lock_within(Lock::Patience::kFork));
    CHECK(os::nanoseconds() - second < 500 * kMillisecond);
  });
  CHECK(lock.lock_within(Lock::Patience::kCall));  // the owner has come back
}

TEST_CASE("lock: a quiet unlock is noticed as well", "[base]") {
  Lock lock;
  REQUIRE(lock.try_lock());
  std::atomic<bool> got{false};
  std::thread other([&] { got = lock.lock_within(Lock::Patience::kFork); });
  os::rest(5 * kMillisecond);
  lock.unlock_quietly();
  other.join();
  CHECK(got);
}

TEST_CASE("lock: a call waits for some turns of the scheduler, and looks at each millisecond",
          "[base]") {
  long most = 0;
  // A machine that is busy lets a thread sleep for longer, and so less often.
  for (int time = 0; time < 2 || (time < 20 && most < 150); ++time) {
    Lock lock;
    while_another_holds(lock, [&] {
      const Nanos start = os::nanoseconds();
      const long before = sleeps();
      CHECK_FALSE(lock.lock_within(Lock::Patience::kCall));
      most = std::max(most, sleeps() - before);
      CHECK(os::nanoseconds() - start >= 200 * kMillisecond);
    });
  }
  CHECK(most >= 150);
  CHECK(most <= 255);
}

TEST_CASE("lock: who finds others at it in turn waits on", "[base]") {
  Lock lock;
  std::atomic<int> stage{0};
  std::thread holder([&] {
    REQUIRE(lock.try_lock());
    stage = 1;
    for (int turn = 0; turn < 25; ++turn) {
      os::rest(20 * kMillisecond);
      lock.unlock();
      while (!lock.try_lock() && stage == 1) {
      }
      if (stage == 2) {
        return;
      }
    }
    lock.unlock();
  });
  while (stage == 0) {
    os::rest();
  }
  CHECK(lock.lock_within(Lock::Patience::kCall));
  stage = 2;
  lock.unlock();
  holder.join();
}

TEST_CASE("lock: errno is kept where a lock is waited for", "[base]") {
  Lock lock;
  while_another_holds(lock, [&] {
    errno = 1234;
    CHECK_FALSE(lock.lock_within(Lock::Patience::kCall));
    CHECK(errno == 1234);
  });
}

TEST_CASE("fork mark: gone in a child that no handler knows of, until it is renewed", "[base]") {
  ForkMark mark;
  CHECK(mark.here());
  REQUIRE(mark.open());
  REQUIRE(mark.open());
  CHECK(mark.here());
  const auto child = static_cast<pid_t>(syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
  if (child == 0) {
    const bool gone = !mark.here() && !mark.told();
    mark.tell();
    const bool told = !mark.here() && mark.told();
    mark.renew();
    syscall(SYS_exit_group, gone && told && mark.here() && !mark.told() ? 0 : 1);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  CHECK(mark.here());
}

TEST_CASE("fork mark: stays in a child that shares its parent's memory", "[base]") {
  static ForkMark mark;
  REQUIRE(mark.open());
  const pid_t child = vfork();
  if (child == 0) {
    _exit(mark.here() ? 0 : 1);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}

int handled = 0;

TEST_CASE("interrupts: kept away for a scope, but those of the thread's own instructions",
          "[base]") {
  handled = 0;
  const auto before = std::signal(SIGUSR2, [](int) { ++handled; });
  {
    const NoInterrupts quiet;
    raise(SIGUSR2);
    CHECK(handled == 0);
    sigset_t blocked;
    REQUIRE(pthread_sigmask(SIG_BLOCK, nullptr, &blocked) == 0);
    CHECK(sigismember(&blocked, SIGSEGV) == 0);
  }
  CHECK(handled == 1);
  std::signal(SIGUSR2, before);
}

TEST_CASE("interrupts: held from one call to another, the program's own mask kept", "[base]") {
  handled = 0;
  const auto before = std::signal(SIGUSR2, [](int) { ++handled; });
  sigset_t own;
  sigset_t found;
  sigemptyset(&own);
  sigaddset(&own, SIGUSR1);
  REQUIRE(pthread_sigmask(SIG_BLOCK, &own, nullptr) == 0);
  hold_signals();
  hold_signals();
  raise(SIGUSR2);
  release_signals();
  CHECK(handled == 0);
  const pid_t child = fork();
  if (child == 0) {
    release_signals();
    pthread_sigmask(SIG_BLOCK, nullptr, &found);
    _exit(sigismember(&found, SIGUSR2) + 2 * sigismember(&found, SIGUSR1));
  }
  release_signals();
  CHECK(handled == 1);
  release_signals();  // one too many changes nothing
  REQUIRE(pthread_sigmask(SIG_UNBLOCK, &own, &found) == 0);
  CHECK(sigismember(&found, SIGUSR2) == 0);
  CHECK(sigismember(&found, SIGUSR1) == 1);
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 2));
  std::signal(SIGUSR2, before);
}

}  // namespace
}  // namespace memo
