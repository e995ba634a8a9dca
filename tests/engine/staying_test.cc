// Blocks that outlive the loop in the places of a plan.
#include <catch2/catch.hpp>
#include <vector>

#include "src/engine/engine.h"
#include "tests/support/engines.h"

namespace memo {
namespace {

using testing::Block;
using testing::drive;
using testing::Driver;
using testing::Program;
using testing::program_of;

TEST_CASE("engine: blocks that stay in a plan's places are in its way for some iterations only",
          "[engine]") {
  drive([](Engine& engine, Driver& driver, const Lane& lane) {
    const Program program = program_of(12);
    testing::iterations_until_serving(driver, program, lane);
    driver.iterate(program, 30);
    std::vector<Block> kept;
    for (const auto& step : program) {
      kept.push_back(driver.take(step.size));
    }
    driver.iterate(program, 30);
    CHECK(lane.counters.diverged.get() == 1);
    std::uint64_t planned = lane.counters.planned_allocations.get();
    driver.iterate(program, 3);
    CHECK(lane.counters.planned_allocations.get() == planned + 3 * program.size());
    for (const Block& block : kept) {
      CHECK(block.whole());
      driver.release(block);
    }
    // After a rest the slab begins at its start again.
    engine.give_back.all();
    planned = lane.counters.planned_allocations.get();
    driver.iterate(program, 3);
    CHECK(lane.counters.planned_allocations.get() == planned + 3 * program.size());
    CHECK(lane.slab().at(0) == lane.slab().space().base());
  });
}

TEST_CASE("engine: extra blocks that stay get no places where the plan has other blocks",
          "[engine]") {
  drive([](Engine&, Driver& driver, const Lane& lane) {
    const Program program = program_of(12);
    testing::iterations_until_serving(driver, program, lane);
    driver.iterate(program, 2);
    const std::uint64_t planned = lane.counters.planned_allocations.get();
    std::vector<Block> kept;
    for (const std::uint32_t ahead : {4U, 4U, 7U, 6U, 6U, 8U, 5U}) {
      kept.push_back(driver.take(program[ahead].size));
    }
    driver.iterate(program, 8);
    CHECK(lane.counters.planned_allocations.get() == planned + 8 * program.size());
    CHECK(lane.counters.fallback_occupied.get() == 0);
    for (const Block& block : kept) {
      driver.release(block);
    }
  });
}

// The iterations, of at most 60, in which an older block was in the way of one that the slab has a place for.
std::uint32_t crowded_iterations(Driver& driver, const Program& program, const Lane& lane) {
  std::uint32_t count = 0;
  for (int i = 0; i < 60; ++i) {
    const std::uint64_t before = lane.counters.planned_allocations.get();
    driver.iterate(program);
    count += lane.counters.planned_allocations.get() == before + program.size() ? 0U : 1U;
  }
  return count;
}

TEST_CASE("engine: a loop whose blocks begin to live longer has a plan of that soon", "[engine]") {
  // The plan that is left would fit a long loop again while its successor is on trial.
  const std::uint32_t calls = GENERATE(10U, 40U);
  CAPTURE(calls);
  drive([&](Engine& engine, Driver& driver, const Lane& lane) {
    const Program program = program_of(12, calls);
    testing::iterations_until_serving(driver, program, lane);
    driver.iterate(program, 40);
    Program longer = program;
    for (auto& step : longer) {
      step.lifetime += 12;
    }
    // Eight windows of 32 calls until the plan is left, and three copies to learn from.
    CHECK(crowded_iterations(driver, longer, lane) < 35);
    CHECK(lane.counters.diverged.get() == 1);
    // It has places for blocks that die sooner, too.
    CHECK(crowded_iterations(driver, program, lane) == 0);
    CHECK(engine.lanes.valid());
  });
}

}  // namespace
}  // namespace memo
