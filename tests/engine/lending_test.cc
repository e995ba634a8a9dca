// Threads that take turns: slabs at rest are lent to those that work, and threads follow what
// others have learned.
#include <catch2/catch.hpp>
#include <thread>
#include <vector>

#include "src/base/bits.h"
#include "src/base/os.h"
#include "src/base/tuning.h"
#include "src/engine/engine.h"
#include "tests/support/engines.h"

namespace memo {
namespace {

using testing::Block;
using testing::Driver;
using testing::in_thread;
using testing::OwnEngine;
using testing::Program;
using testing::program_of;

TEST_CASE("threads: a slab at rest is lent to the next thread that works", "[engine]") {
  OwnEngine own;
  const Program program = program_of(1);
  in_thread([&] {
    Driver first(own.engine);
    first.iterate(program, 10);
    REQUIRE(own.engine.lanes.at(0).phase() == Phase::kServing);
    const std::uint64_t one = own.engine.lanes.shared().slabs.bytes;
    testing::rest_for(3 * tuning::kRestNanoseconds);
    in_thread([&] {
      Driver second(own.engine, 1ULL << 40);
      second.iterate(program, 5);
      CHECK(own.engine.lanes.at(1).phase() == Phase::kServing);
      CHECK(own.engine.lanes.shared().slabs.bytes == one);
      CHECK(own.engine.lanes.at(0).slab_height() == 0);
      second.free_due(UINT64_MAX);
      CHECK(second.wrong == 0);
      testing::rest_for(3 * tuning::kRestNanoseconds);
    });
    first.iterate(program, 3);  // takes it back
    CHECK(own.engine.lanes.shared().slabs.bytes == one);
    CHECK(own.engine.lanes.at(0).slab_height() == one);
    CHECK(first.wrong == 0);
    first.free_due(UINT64_MAX);
    CHECK(own.engine.lanes.valid());
  });
}

std::uint32_t slabs_with_memory(const Engine& engine) {
  std::uint32_t slabs = 0;
  for (std::uint32_t i = 0; i < engine.lanes.count(); ++i) {
    slabs += engine.lanes.at(i).slab_height() != 0 ? 1U : 0U;
  }
  return slabs;
}

// Threads that serve at once, and then end.
void work_at_once(Engine& engine, const Program& program, std::uint32_t number) {
  std::atomic<std::uint32_t> arrived{0};
  std::vector<std::thread> threads;
  for (std::uint64_t i = 0; i < number; ++i) {
    threads.emplace_back([&, i] {
      Driver driver(engine, i << 40);
      driver.iterate(program, 10);
      const Block kept = driver.take(program[0].size);
      ++arrived;
      while (arrived < number) {
        std::this_thread::yield();
      }
      driver.release(kept);
      driver.free_due(UINT64_MAX);
      CHECK(driver.wrong == 0);
      engine.thread_ended();
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

TEST_CASE("threads: those that have ended leave their slabs to those that come, for some seconds",
          "[engine]") {
  OwnEngine own;
  const Program program = program_of(1);
  constexpr std::uint32_t kThreads = 6;
  testing::drive(own, [](Engine& engine, const Driver&, const Lane&) {
    engine.lanes.shared().slabs.most = kThreads;  // however few processors there are
  });
  work_at_once(own.engine, program, kThreads);
  const std::uint32_t slabs = slabs_with_memory(own.engine);
  CHECK(slabs > kThreads / 2);
  work_at_once(own.engine, program, kThreads);
  CHECK(slabs_with_memory(own.engine) <= kThreads);
  Shared& shared = own.engine.lanes.shared();
  const Nanos later = os::coarse_nanoseconds() + tuning::kSpareWindow;
  shared.slabs.owned.note(0, later + Nanos{1'000'000'000});  // two windows are over
  shared.slabs.owned.note(0, later + 3 * tuning::kSpareWindow);
  give_up_spare(shared, 0);
  CHECK(slabs_with_memory(own.engine) == 0);
  CHECK(own.engine.lanes.valid());
}

TEST_CASE(
    "threads: who takes up a known plan and an empty slab leaves the pool to those that come next",
    "[engine]") {
  OwnEngine own;
  const Program program = program_of(1);
  const auto work = [&](std::uint64_t number) {
    in_thread([&] {
      Driver driver(own.engine, number << 40);
      driver.iterate(program, 10);
      driver.free_due(UINT64_MAX);
      CHECK(driver.wrong == 0);
      own.engine.thread_ended();
    });
  };
  work(0);
  for (std::uint64_t number = 1; number < 6; number += 2) {
    in_thread([&] {
      Driver driver(own.engine, number << 40);
      const Block first = driver.take(program[0].size);
      const Block second = driver.take(program[1].size);
      work(number + 1);  // at the same time: the pool holds the first calls of both
      driver.release(first);
      driver.release(second);
      own.engine.thread_ended();
    });
  }
  const Holding& pool = own.engine.lanes.shared().pool.held();
  const std::uint64_t kept = pool.dirty_bytes();
  CHECK(kept == 2 * bytes_of(granules_of(program[0].size) + granules_of(program[1].size)));
  work(7);
  CHECK(pool.dirty_bytes() == kept);
}

TEST_CASE("threads: a thread follows what others have learned from its third call on", "[engine]") {
  OwnEngine own;
  const Program program = program_of(1);
  in_thread([&] {
    Driver first(own.engine);
    first.iterate(program, 10);
    REQUIRE(own.engine.lanes.at(0).phase() == Phase::kServing);
    in_thread([&] {
      Driver second(own.engine, 1ULL << 40);
      second.iterate(program);
      const Counters& counters = own.engine.lanes.at(1).counters;
      CHECK(counters.planned_allocations.get() == program.size() - 2);
      second.free_due(UINT64_MAX);
      CHECK(second.wrong == 0);
    });
  });
}

// Calls of the plan's first iteration that are not served, where a thread makes so many others
// before it.
std::uint64_t unserved_after(std::uint32_t others) {
  OwnEngine own;
  const Program program = program_of(1);
  std::uint64_t unserved = 0;
  in_thread([&] {
    Driver first(own.engine);
    first.iterate(program, 10);
    REQUIRE(own.engine.lanes.at(0).phase() == Phase::kServing);
    in_thread([&] {
      Driver second(own.engine, 1ULL << 40);
      for (std::uint64_t i = 0; i < others; ++i) {
        second.step({300'000 + 4096 * (i * i % 997), 1});
      }
      second.iterate(program);
      unserved = program.size() - own.engine.lanes.at(1).counters.planned_allocations.get();
      second.free_due(UINT64_MAX);
    });
  });
  return unserved;
}

TEST_CASE("threads: a plan is believed early in the first dozens of calls, not after a hundred",
          "[engine]") {
  CHECK(unserved_after(45) <= 3);
  CHECK(unserved_after(100) >= 5);
}

}  // namespace
}  // namespace memo
