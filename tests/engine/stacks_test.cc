// What reads and writes files waits for a thread with a real stack.
#include <alloca.h>
#include <pthread.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <climits>
#include <functional>

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

// The smallest stack that a thread can have here, 128 KiB on some processors.
std::size_t least_stack() {
  return std::max(kSmall, static_cast<std::size_t>(PTHREAD_STACK_MIN));
}

// Runs the function on a thread with 48 KiB of stack left.
void in_small_thread(std::function<void()> function) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  REQUIRE(pthread_attr_setstacksize(&attributes, least_stack()) == 0);
  pthread_t thread;
  const auto run = [](void* body) -> void* {
    auto* taken = static_cast<volatile char*>(alloca(least_stack() - kSmall + 1));
    *taken = 0;
    (*static_cast<std::function<void()>*>(body))();
    return nullptr;
  };
  REQUIRE(pthread_create(&thread, &attributes, run, &function) == 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
}

TEST_CASE("stacks: small ones are not for plan files and reports", "[engine]") {
  opened = reported = 0;
  OwnEngine own({}, {.phase_changed = count_reported, .opened = count_opened});
  const auto program = program_of(5);
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
  });
}

}  // namespace
}  // namespace memo
