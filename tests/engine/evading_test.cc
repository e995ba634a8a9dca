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
    driver.iterate(program, 2);
    std::vector<Block> kept;
    for (const auto& step : program) {
      kept.push_back(driver.take(step.size));
    }
    driver.iterate(program, 8);
    CHECK(lane.counters.evaded.get() == 1);
    const std::uint64_t planned = lane.counters.planned_allocations.get();
    driver.iterate(program, 3);
    CHECK(lane.counters.planned_allocations.get() == planned + 3 * program.size());
    CHECK(lane.slab_height() == lane.tallest());
    for (const Block& block : kept) {
      CHECK(block.whole());
      driver.release(block);
    }
    // After a rest the slab begins at its start again.
    engine.upkeep.give_back();
    const std::uint64_t before = lane.counters.planned_allocations.get();
    driver.iterate(program, 3);
    CHECK(lane.counters.planned_allocations.get() == before + 3 * program.size());
    CHECK(lane.counters.evaded.get() == 1);
  });
}

}  // namespace
}  // namespace memo
