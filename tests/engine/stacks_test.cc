// What plans, reads and writes files has a stack of its own, whatever the thread's is.
#include <alloca.h>
#include <execinfo.h>
#include <pthread.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <climits>
#include <cstdlib>
#include <functional>
#include <utility>

#include "src/base/own_stack.h"
#include "src/engine/engine.h"
#include "tests/support/engines.h"
#include "tests/support/process.h"
#include "tests/support/skip.h"

namespace memo {
namespace {

using testing::Driver;
using testing::OwnEngine;
using testing::program_of;

int opened = 0;
int reported = 0;

void count_opened(const RecursionGuard&) {
  ++opened;
}
void count_reported(const RecursionGuard&) {
  ++reported;
}

constexpr std::size_t kSmall = 48 * 1024;

// Bytes of the calling thread's stack below this call. A sanitizer gives a thread more than it asks
// for, and some processors at least 128 KiB.
std::size_t stack_left() {
  pthread_attr_t attributes;
  REQUIRE(pthread_getattr_np(pthread_self(), &attributes) == 0);
  void* lowest = nullptr;
  std::size_t size = 0;
  pthread_attr_getstack(&attributes, &lowest, &size);
  pthread_attr_destroy(&attributes);
  return static_cast<std::size_t>(static_cast<char*>(__builtin_frame_address(0)) -
                                  static_cast<char*>(lowest));
}

struct SmallThread {
  std::size_t left = 0;
  std::function<void()> function;

  static void* run(void* data) {
    const auto& own = *static_cast<SmallThread*>(data);
    auto* taken =
        static_cast<volatile char*>(alloca(std::max(stack_left(), own.left) - own.left + 1));
    *taken = 0;
    own.function();
    return nullptr;
  }
};

// Runs the function on a thread with so many bytes of stack left.
void in_thread_of(std::size_t left, std::function<void()> function) {
  SmallThread small{left, std::move(function)};
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  // Thread-local variables lie in a thread's stack, 60 KiB of them where BLAS is OpenBLAS.
  constexpr std::size_t kThreadLocal = 256 * 1024;
  REQUIRE(pthread_attr_setstacksize(&attributes, left + kThreadLocal) == 0);
  pthread_t thread;
  REQUIRE(pthread_create(&thread, &attributes, SmallThread::run, &small) == 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
}
void in_small_thread(std::function<void()> function) {
  in_thread_of(kSmall, std::move(function));
}

TEST_CASE("stacks: a thread with a small one opens files, makes plans and tells of them",
          "[engine]") {
  opened = reported = 0;
  OwnEngine own({}, {.phase_changed = count_reported, .opened = count_opened});
  Phase phase = Phase::kIdle;
  std::uint64_t plans = 0;
  in_small_thread([&] {
    Driver driver(own.engine);
    driver.iterate(program_of(5), 12);
    phase = t_state.lane->phase();
    plans = own.engine.lanes.at(0).counters.plans.get();
    driver.free_due(UINT64_MAX);
    own.engine.thread_ended();
  });
  CHECK(opened == 1);
  CHECK(plans != 0);
  CHECK(phase == Phase::kServing);
  CHECK(reported != 0);
}

// How far below its caller's frame it is run; 0 where the system has refused it.
std::ptrdiff_t distance_of_own_stack() {
  char* const here = static_cast<char*>(__builtin_frame_address(0));
  std::ptrdiff_t distance = 0;
  const ThreadState* state = nullptr;
  os::run_on_own_stack([&] {
    distance = std::abs(here - static_cast<char*>(__builtin_frame_address(0)));
    state = &t_state;
    try {
      throw distance;
    } catch (std::ptrdiff_t thrown) {
      distance = thrown;
    }
  });
  CHECK(state == &t_state);
  return distance;
}

TEST_CASE("stacks: the library's own is another one of the same thread", "[engine]") {
#if defined(MEMO_ASAN) || defined(MEMO_TSAN)
  return testing::skip("a sanitizer knows the thread's own stack alone");
#endif
  CHECK(distance_of_own_stack() > 1 << 20);
}

// True if an unwinder that begins on the library's own stack comes to this function's caller.
[[gnu::noinline]] bool caller_is_found() {
  void* const caller = __builtin_return_address(0);
  std::array<void*, 64> frames{};
  int count = 0;
  os::run_on_own_stack([&] { count = backtrace(frames.data(), static_cast<int>(frames.size())); });
  return std::find(frames.begin(), frames.begin() + count, caller) != frames.begin() + count;
}

TEST_CASE("stacks: debuggers and profilers find the caller of the library's own", "[engine]") {
  CHECK(caller_is_found());
}

}  // namespace
}  // namespace memo
