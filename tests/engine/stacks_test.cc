// What reads and writes files waits for a thread with a real stack.
#include <alloca.h>
#include <pthread.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <climits>
#include <functional>
#include <utility>

#include "src/engine/engine.h"
#include "tests/support/engines.h"
#include "tests/support/process.h"

namespace memo {
namespace {

using testing::Driver;
using testing::in_thread;
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

TEST_CASE("stacks: small ones are not for plan files and reports", "[engine]") {
  opened = reported = 0;
  OwnEngine own({}, {.phase_changed = count_reported, .opened = count_opened});
  const auto program = testing::untried_program();
  Phase small_phase = Phase::kIdle;
  const auto small = [&] {
    Driver driver(own.engine, 1ULL << 40);
    driver.iterate(program, 5);
    small_phase = t_state.lane->phase();
    driver.free_due(UINT64_MAX);
    own.engine.thread_ended();
  };
  in_small_thread(small);
  CHECK(opened == 0);
  in_thread([&] {
    Driver driver(own.engine);
    driver.iterate(program, 12);
    CHECK(opened == 1);
    CHECK(reported == 1);
    driver.free_due(UINT64_MAX);
    in_small_thread(small);
    CHECK(small_phase == Phase::kServing);
    CHECK(opened == 1);
    CHECK(reported == 1);
    in_thread_of(96 * 1024, small);
    CHECK(reported == 2);
  });
}

// Runs a program for long on a thread with so many KiB of stack left; the plans that it made.
std::uint64_t plans_made(std::size_t left) {
  OwnEngine own({}, {.opened = count_opened});
  std::uint64_t plans = 0;
  in_thread_of(left * 1024, [&] {
    Driver driver(own.engine);
    driver.iterate(program_of(5), 12);
    plans = own.engine.lanes.at(0).counters.plans.get();
    driver.free_due(UINT64_MAX);
    own.engine.thread_ended();
  });
  return plans;
}

TEST_CASE("stacks: a thread of 384 KiB reads plan files, one of 192 KiB does not", "[engine]") {
  opened = 0;
  plans_made(192);
  CHECK(opened == 0);
  plans_made(384);
  CHECK(opened == 1);
}

TEST_CASE("stacks: a thread of 768 KiB makes plans, one of 384 KiB does not", "[engine]") {
  CHECK(plans_made(384) == 0);
  CHECK(plans_made(768) != 0);
}

}  // namespace
}  // namespace memo
