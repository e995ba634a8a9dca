// Plans of an earlier process that the program has grown out of.
#include <catch2/catch.hpp>

#include "src/engine/engine.h"
#include "tests/support/engines.h"
#include "tests/support/schedules.h"

namespace memo {
namespace {

using testing::drive;
using testing::Driver;
using testing::OwnEngine;
using testing::Program;
using testing::program_of;
using testing::Random;

// Of a loop of 300 calls, made by another version of the program: the first calls are the same, then no other.
TEST_CASE(
    "engine: a stored plan that fits no more is left within some dozens of calls, with its memory",
    "[engine]") {
  const bool learned_here = GENERATE(false, true);
  const Program whole = program_of(19, 300);
  OwnEngine own;
  drive(own, [&](Engine& engine, Driver& driver, const Lane& lane) {
    if (learned_here) {
      REQUIRE(testing::iterations_until_serving(driver, whole, lane) < 12);
      driver.iterate(whole, 2);
    } else {
      driver.release(driver.take(333'333));
      const auto sizes = testing::sizes_of(whole);
      {
        Random random(20);
        const RecursionGuard guard;
        REQUIRE(engine.plans.add(guard, testing::hostile(random, sizes, 32 << 20), 300) != nullptr);
      }
      for (std::size_t call = 0; call < 20; ++call) {
        driver.release(driver.take(sizes[call]));
      }
      REQUIRE(lane.phase() == Phase::kServing);
      REQUIRE(lane.slab_height() != 0);
    }
    std::uint64_t calls = 0;
    while (lane.phase() == Phase::kServing && calls < 1000) {
      driver.release(driver.take(300'000 + 4096 * calls++));
    }
    if (learned_here) {
      CHECK(calls > 200);  // it may be a detour
      return;
    }
    CHECK(calls > 40);
    CHECK(calls <= 56);
    CHECK(lane.slab_height() == 0);
    CHECK(engine.lanes.shared().store.empty());
    CHECK(engine.lanes.valid());
  });
}

}  // namespace
}  // namespace memo
