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

// What a network does as it is asked and as it is trained: the same calls, whose blocks soon die in the one and
// stay until the end in the other, which then makes as many calls again.
constexpr std::uint32_t kLayers = 60;
Program asked() {
  Program program;
  for (std::uint32_t i = 0; i < kLayers; ++i) {
    program.push_back({70'000 + 4096ULL * (i * 7 % kLayers), std::min(2U, kLayers - i)});
  }
  return program;
}
Program trained() {
  Program program = asked();
  for (std::uint32_t i = 0; i < kLayers; ++i) {
    program[i].lifetime = 2 * kLayers - 2 * i;
    program.push_back({400'000 + 4096ULL * (i * 7 % kLayers), 1});
  }
  return program;
}

// A plan of one program, as a file has it.
Plan plan_for(const Program& program) {
  std::vector<Step> steps;
  std::uint64_t top = 0;
  for (std::uint32_t i = 0; i < program.size(); ++i) {
    const bool stays = program.size() > kLayers && i < kLayers;
    const std::uint64_t offset = stays                      ? top
                                 : program.size() > kLayers ? kLayers * 500'000ULL
                                                            : i % 2 * 500'000;
    steps.push_back({.size = program[i].size,
                     .offset = bytes_of(granules_of(offset)),
                     .lifetime = program[i].lifetime});
    top += stays ? bytes_of(granules_of(program[i].size)) : 0;
  }
  return testing::plan_of(steps, 40 << 20);
}

TEST_CASE(
    "engine: a stored plan whose blocks live for another time is left within its first iteration",
    "[engine]") {
  const bool trains = GENERATE(false, true);
  const bool has_own = GENERATE(false, true);
  const Program program = trains ? trained() : asked();
  const Program other = trains ? asked() : trained();
  OwnEngine own;
  drive(own, [&](Engine& engine, Driver& driver, const Lane& lane) {
    driver.release(driver.take(333'333));
    const StoredPlan* right = nullptr;
    {
      const RecursionGuard guard;
      // The other's maker is the nearer one, so that it is taken first.
      REQUIRE(engine.plans.add(guard, plan_for(other), static_cast<std::uint32_t>(other.size()),
                               Maker::kCommand));
      if (has_own) {
        right =
            engine.plans.add(guard, plan_for(program), static_cast<std::uint32_t>(program.size()));
        REQUIRE(right != nullptr);
      }
    }
    const Counters& counters = lane.counters;
    std::uint32_t calls = 0;
    for (; calls < kLayers && counters.diverged.get() == 0; ++calls) {
      driver.step(program[calls]);
    }
    CAPTURE(calls);
    CHECK(calls > 16);
    CHECK(calls < 36);
    const auto found = [&] { return has_own && lane.tracker().state().serving.plan == right; };
    std::uint64_t alive = 0;
    for (; calls < program.size() && !found(); ++calls) {
      driver.step(program[calls]);
    }
    for (std::uint32_t call = 0; trains && found() && call + 1 < calls; ++call) {
      alive += bytes_of(granules_of(program[call].size));
    }
    // What the pool and the wrong plan have goes back as it is freed: it has a place in the right one's slab.
    CHECK(lane.owed() >= alive);
    for (; calls < program.size(); ++calls) {
      driver.step(program[calls]);
    }
    if (has_own) {
      CHECK(lane.tracker().state().serving.plan == right);
    } else {
      CHECK(testing::iterations_until_serving(driver, program, lane) < 12);
    }
    driver.iterate(program, 2);
    const std::uint64_t before = counters.planned_allocations.get();
    driver.iterate(program, 3);
    CHECK(counters.planned_allocations.get() - before == 3 * program.size());
    CHECK(counters.diverged.get() == 1);
    // Whoever made the other has it still.
    std::uint32_t visible = 0;
    engine.lanes.shared().store.for_each([&](const StoredPlan&, std::uint32_t) { ++visible; });
    CHECK(visible == 2);
  });
}

TEST_CASE("engine: a stored plan is kept by whom it was made for", "[engine]") {
  const Program program = GENERATE(asked(), trained());
  OwnEngine own;
  drive(own, [&](Engine& engine, Driver& driver, const Lane& lane) {
    driver.release(driver.take(333'333));
    {
      const RecursionGuard guard;
      REQUIRE(engine.plans.add(guard, plan_for(program),
                               static_cast<std::uint32_t>(program.size())) != nullptr);
    }
    driver.iterate(program, 3);
    CHECK(lane.counters.diverged.get() == 0);
    CHECK(lane.counters.planned_allocations.get() >= 3 * program.size() - 8);
  });
}

// The same in one process: the plan has served for long.
TEST_CASE("engine: a loop whose blocks live longer than those of the plan gets its own",
          "[engine]") {
  drive([&](Engine&, Driver& driver, const Lane& lane) {
    REQUIRE(testing::iterations_until_serving(driver, asked(), lane) < 12);
    driver.iterate(asked(), 10);
    driver.iterate(trained(), 40);
    const std::uint64_t before = lane.counters.planned_allocations.get();
    driver.iterate(trained(), 5);
    CHECK(lane.counters.planned_allocations.get() - before == 5 * trained().size());
  });
}

}  // namespace
}  // namespace memo
