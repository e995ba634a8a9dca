// A loop whose sizes change in every iteration is served from one symbolic plan.
#include <catch2/catch.hpp>
#include <utility>

#include "tests/support/engines.h"
#include "tests/support/schedules.h"
#include "tests/support/shaped_loop.h"

namespace memo {
namespace {

using testing::below;
using testing::Driver;
using testing::kCalls;
using testing::Random;
using Loop = testing::ShapedLoop;

std::uint64_t fallbacks(const Lane& lane) {
  return lane.counters.fallback_allocations.get();
}

// Whether call stacks can be told apart: on the processors whose unwind tables are read.
bool unwinds() {
  load_unwinder();
#if defined(__x86_64__) || defined(__aarch64__)
  return true;
#else
  return false;
#endif
}

// Iterations of random length until the lane serves.
std::uint32_t until_serving(Loop& loop, Random& random, const Lane& lane) {
  std::uint32_t count = 0;
  const auto served = [&] {
    return lane.phase() == Phase::kServing && !lane.tracker().state().confidence.on_trial();
  };
  for (; !served() && count < 200; ++count) {
    loop.iterate(30 + below(random, 300));
  }
  return count;
}

TEST_CASE("engine: sizes that follow from the iteration's first are served", "[engine]") {
  if (!unwinds()) {
    return;
  }
  const auto seed = GENERATE(range(1U, 6U));
  INFO("seed " << seed);
  testing::OwnEngine own;
  testing::drive(own, [&](Engine&, Driver& driver, const Lane& lane) {
    Random random(seed);
    Loop loop{driver};
    const std::uint32_t needed = until_serving(loop, random, lane);
    INFO(needed << " iterations until serving");
    REQUIRE(needed < 200);
    loop.iterate(329);  // the largest
    loop.iterate(329);
    const std::uint64_t height = lane.slab().tallest();
    const std::uint64_t before = fallbacks(lane);
    for (int i = 0; i < 100; ++i) {
      loop.iterate(30 + below(random, 300));
    }
    CHECK(fallbacks(lane) == before);
    CHECK(lane.slab().tallest() == height);
    CHECK(lane.counters.shapes.get() > 50);
    SECTION("a larger shape is known after some calls, and then as cheap as any") {
      loop.iterate(500);
      CHECK(fallbacks(lane) > before);
      CHECK(lane.slab().tallest() > height);
      const std::uint64_t after = fallbacks(lane);
      loop.iterate(500);
      loop.iterate(100);
      CHECK(fallbacks(lane) == after);
    }
    SECTION("calls that fall below the threshold are missed by nobody") {
      const std::uint64_t unseen = lane.counters.large_allocations.get();
      for (std::size_t call = 0; call < kCalls; ++call) {
        if (Loop::bytes(call, 25) >= 65'536) {
          driver.release(driver.take(Loop::bytes(call, 25)));
        }
      }
      CHECK(lane.counters.large_allocations.get() - unseen == kCalls * 3 / 4);
      loop.iterate(40);
      CHECK(fallbacks(lane) == before);
    }
    SECTION("a call too many costs some fallbacks only") {
      for (int i = 0; i < 50; ++i) {
        loop.extra = i % 5 == 0 ? 77'777 : 0;
        loop.iterate(30 + below(random, 300));
      }
      CHECK(lane.phase() == Phase::kServing);
      CHECK(fallbacks(lane) - before < 10 * kCalls);
    }
    SECTION("another program is noticed") {
      const std::uint64_t trials = lane.counters.diverged.get();
      for (int i = 0; i < 100; ++i) {
        driver.release(driver.take(65'536 + 8 * below(random, 100'000)));
      }
      CHECK(lane.counters.diverged.get() == trials + 1);
    }
  });
}

// The plan of a loop of `count` steps as a file has it: the first of x bytes, the others of a part
// of x that is large only in large iterations. `falsify`: two blocks that are alive together lie on
// each other.
Plan saved_plan(std::uint32_t count, std::uint64_t x, bool falsify) {
  std::vector<SymbolicStep> rules;
  std::vector<Step> steps;
  std::uint64_t offset = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    rules.push_back(
        {.rule = {.slope = i == 0 ? 1 : 1 / (16.0 + i % 3)}, .lifetime = std::min(4U, count - i)});
    steps.push_back(
        {.size = rules[i].rule.bytes(x), .offset = offset, .lifetime = rules[i].lifetime});
    offset = falsify || i % 8 == 7 ? 0 : offset + round_up(steps[i].size, kGranule);
  }
  const SymbolicPlan symbolic{.steps = rules.data(), .count = count, .least = 65'536};
  return testing::plan_of(steps, 64 << 20, &symbolic);
}

// The first `steps` of an iteration of that loop, or all of it.
void iterate_saved(Driver& driver, std::uint32_t count, std::uint64_t x,
                   std::uint32_t steps = UINT32_MAX) {
  for (std::uint32_t i = 0; i < std::min(count, steps); ++i) {
    const SizeRule rule{.slope = i == 0 ? 1 : 1 / (16.0 + i % 3)};
    if (rule.bytes(x) >= 65'536) {
      driver.step({rule.bytes(x), std::min(4U, count - i)});
    }
  }
}

TEST_CASE("engine: a saved symbolic plan is made whole once calls have matched it", "[engine]") {
  const bool false_plan = GENERATE(false, true);
  CAPTURE(false_plan);
  testing::OwnEngine own;
  testing::drive(own, [&](Engine& engine, Driver& driver, const Lane& lane) {
    {
      const RecursionGuard guard;
      REQUIRE(engine.plans.add(guard, saved_plan(24, 4 << 20, false_plan), 24));
    }
    const StoredPlan* plan = nullptr;
    auto& store = const_cast<Shared&>(engine.lanes.shared()).store;
    const auto look = [&] {
      plan = nullptr;
      store.for_each([&](const StoredPlan& one, std::uint32_t) {
        plan = one.made->symbolic != nullptr ? &one : plan;  // and no plan on trial
      });
      return plan != nullptr;
    };
    REQUIRE(look());
    CHECK_FALSE(plan->best()->symbolic->complete());
    iterate_saved(driver, 24, 3 << 20, 12);
    CHECK_FALSE(plan->best()->symbolic->complete());
    const auto in_shapes = [&] { return lane.tracker().state().serving.shapes.plan() != nullptr; };
    CHECK_FALSE(in_shapes());
    for (int i = 0; i < 3; ++i) {  // its layers are tried before it fits
      iterate_saved(driver, 24, 2 << 20);
    }
    CHECK(look() == !false_plan);
    CHECK(in_shapes() == !false_plan);
    if (!false_plan) {
      CHECK(plan->best()->symbolic->complete());
      CHECK(plan->best().get() != plan->made.get());
      iterate_saved(driver, 24, 4 << 20);
      const std::uint64_t before = fallbacks(lane);
      iterate_saved(driver, 24, 3 << 20);
      iterate_saved(driver, 24, 2 << 20);
      CHECK(fallbacks(lane) == before);
    }
  });
}

TEST_CASE("engine: a known symbolic plan is served after some dozens of calls that fit",
          "[engine]") {
  constexpr std::uint32_t kSteps = 200;
  testing::OwnEngine own;
  testing::drive(own, [&](Engine& engine, Driver& driver, const Lane& lane) {
    std::vector<SymbolicStep> rules;
    std::vector<Step> steps;
    const std::uint64_t x = 4 << 20;
    for (std::uint32_t i = 0; i < kSteps; ++i) {
      rules.push_back({.rule = {.slope = i == 0 ? 1 : 1 / (16 + i / 10.0)}, .lifetime = 1});
      steps.push_back({.size = rules[i].rule.bytes(x), .offset = 0, .lifetime = 1});
    }
    const SymbolicPlan symbolic{.steps = rules.data(), .count = kSteps, .least = 65'536};
    {
      const RecursionGuard guard;
      REQUIRE(engine.plans.add(guard, testing::plan_of(steps, 64 << 20, &symbolic), kSteps));
    }
    const auto calls = [&](std::uint32_t first, std::uint32_t end) {
      for (std::uint32_t i = first; i < end; ++i) {
        driver.step({rules[i].rule.bytes(3 << 20), 1});
      }
    };
    calls(0, 24);
    CHECK(lane.phase() != Phase::kServing);
    calls(24, 48);
    CHECK(lane.phase() == Phase::kServing);
  });
}

TEST_CASE("engine: 100,000 shapes cost each call a bounded part of a layout", "[engine]") {
  constexpr std::uint32_t kSteps = 2000;
  constexpr std::uint64_t kShapes = 100'000;
  testing::OwnEngine own;
  testing::drive(own, [&](Engine& engine, Driver& driver, const Lane& lane) {
    {
      const RecursionGuard guard;
      REQUIRE(engine.plans.add(guard, saved_plan(kSteps, 4 << 20, false), kSteps));
    }
    iterate_saved(driver, kSteps, 2 << 20);
    REQUIRE(lane.phase() == Phase::kServing);
    const std::uint64_t calls = lane.counters.large_allocations.get();
    const std::uint64_t shapes = lane.counters.shapes.get();
    // Only the first block of these iterations is large; each has a size of its own.
    for (std::uint64_t i = 0; i < kShapes; ++i) {
      void* block = engine.allocate({65'536 + 8 * (i * 7919 % kShapes), 64, Op::k_malloc, false});
      REQUIRE(block != nullptr);
      REQUIRE(engine.free(block));
    }
    CHECK(lane.counters.large_allocations.get() - calls == kShapes);
    CHECK(lane.counters.shapes.get() > shapes);
    CHECK((lane.counters.shapes.get() - shapes) * kSteps <= 64 * (kShapes + 2 * kSteps));
  });
}

TEST_CASE("engine: a loop of one shape gets an exact plan, not a symbolic one", "[engine]") {
  testing::OwnEngine own;
  testing::drive(own, [](Engine&, Driver& driver, const Lane& lane) {
    Loop loop{driver};
    for (int i = 0; i < 60; ++i) {
      loop.iterate(100);
    }
    CHECK(lane.phase() == Phase::kServing);
    CHECK(lane.counters.shapes.get() == 0);
  });
}

TEST_CASE("engine: shapes beyond the slab's limit are served by the pool", "[engine]") {
  if (!unwinds()) {
    return;
  }
  Options options;
  options.SLAB_LIMIT = 8 << 20;
  testing::OwnEngine own(options);
  testing::drive(own, [](Engine& engine, Driver& driver, const Lane& lane) {
    Random random(1);
    Loop loop{driver};
    REQUIRE(until_serving(loop, random, lane) < 200);
    for (int i = 0; i < 20; ++i) {
      loop.iterate(1000);
    }
    CHECK(lane.slab().tallest() <= 8 << 20);
    CHECK(engine.lanes.shared().slabs.bytes.load() <= 8 << 20);
    // The slab has room for these, whatever was refused before.
    int iterations = 0;
    while (lane.phase() != Phase::kServing && iterations < 20) {
      loop.iterate(100);
      ++iterations;
    }
    INFO(iterations << " iterations");
    CHECK(iterations <= 1);
    CHECK(lane.phase() == Phase::kServing);
  });
}

TEST_CASE("engine: a shape without memory ends the plan at whatever call it is seen", "[engine]") {
  if (!unwinds()) {
    return;
  }
  // So many strange calls before the shape that is too large that each of its calls comes to be the one at
  // which the plan is judged, which it is every 32 calls.
  const std::uint64_t strange = GENERATE(range(0U, 33U));
  INFO(strange << " strange calls");
  Options options;
  options.SLAB_LIMIT = 8 << 20;
  testing::OwnEngine own(options);
  testing::drive(own, [&](Engine&, Driver& driver, const Lane& lane) {
    Random random(2);
    Loop loop{driver};
    REQUIRE(until_serving(loop, random, lane) < 200);
    for (std::uint64_t call = 0; call < strange; ++call) {
      driver.release(driver.take(70'000 + 8 * call));
    }
    loop.iterate(1000);
    CHECK(lane.phase() != Phase::kServing);
    loop.iterate(100);
    CHECK(driver.wrong == 0);
  });
}

}  // namespace
}  // namespace memo
