// A plan that was made in no time is replaced by a lower one between two iterations.
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <thread>

#include "tests/support/engines.h"

namespace memo {
namespace {

using testing::drive;
using testing::Program;

// Many blocks of unlike sizes and lives: the first quick strategies stay above the bound.
Program crowded(std::uint64_t seed) {
  testing::Random random(seed);
  Program program(400);
  for (std::uint32_t i = 0; i < program.size(); ++i) {
    program[i].size = 65'536 + testing::below(random, 400'000);
    program[i].lifetime =
        std::min(1 + static_cast<std::uint32_t>(testing::below(random, 60)), 400 - i);
  }
  return program;
}

// The highest end of a block of the slab during one iteration, bytes from the slab's start.
std::uint64_t highest(Engine& engine, testing::Driver& driver, const Lane& lane,
                      const Program& program) {
  std::uint64_t top = 0;
  for (const testing::ProgramStep& step : program) {
    const testing::Block block = driver.take(step.size);
    if (block.start >= lane.slab().space().base() &&
        block.start < lane.slab().space().base() + lane.slab().space().bytes()) {
      const auto end = static_cast<std::uint64_t>(block.start - lane.slab().space().base());
      top = std::max(top, end + engine.size(block.start));
    }
    driver.keep(block, step.lifetime);
  }
  return top;
}

TEST_CASE("engine: a lower plan is put in between two iterations", "[engine]") {
  Options options;
  options.PLAN_TIME = 0;
  testing::OwnEngine own(options);
  drive(own, [](Engine& engine, testing::Driver& driver, const Lane& lane) {
    const Program program = crowded(7);
    REQUIRE(testing::iterations_until_serving(driver, program, lane) < 12);
    driver.iterate(program);
    const std::uint64_t before = highest(engine, driver, lane, program);
    CHECK(engine.plans.wants_search());
    {
      const RecursionGuard guard;
      engine.plans.search(guard);
    }
    CHECK_FALSE(engine.plans.wants_search());
    driver.iterate(program, 2);
    const std::uint64_t fallbacks = lane.counters.fallback_allocations.get();
    CHECK(lane.counters.lowered.get() == 1);
    CHECK(highest(engine, driver, lane, program) < before);
    CHECK(lane.counters.fallback_allocations.get() == fallbacks);
    CHECK(lane.phase() == Phase::kServing);
    SECTION("and is searched for once") {
      const RecursionGuard guard;
      engine.plans.search(guard);
      driver.iterate(program, 2);
      CHECK(lane.counters.lowered.get() == 1);
    }
  });
}

TEST_CASE("engine: an explicit planner keeps its plans", "[engine]") {
  Options options;
  options.PLANNER = "bump";
  testing::OwnEngine own(options);
  drive(own, [](Engine& engine, testing::Driver& driver, const Lane& lane) {
    const Program program = crowded(7);
    REQUIRE(testing::iterations_until_serving(driver, program, lane) < 12);
    CHECK_FALSE(engine.plans.wants_search());
    const RecursionGuard guard;
    engine.plans.search(guard);
    driver.iterate(program, 3);
    CHECK(lane.counters.lowered.get() == 0);
  });
}

TEST_CASE("engine: all plans are told although another thread has the store", "[engine]") {
  testing::OwnEngine own;
  drive(own, [](Engine& engine, testing::Driver& driver, const Lane& lane) {
    REQUIRE(testing::iterations_until_serving(driver, testing::program_of(3), lane) < 12);
    std::atomic<bool> held{false};
    std::thread other([&] {
      engine.plans.for_each([&](const StoredPlan&) {
        held = true;
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
      });
    });
    while (!held) {
      std::this_thread::yield();
    }
    int told = 0;
    engine.plans.for_each([&](const StoredPlan&) { ++told; });
    CHECK(told == 1);
    other.join();
  });
}

}  // namespace
}  // namespace memo
