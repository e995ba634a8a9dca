// Most calls of a plan take a short way through the tracker: it must decide as the long one does.
#include <catch2/catch.hpp>
#include <vector>

#include "src/engine/tracker.h"
#include "tests/support/histories.h"
#include "tests/support/schedules.h"

namespace memo {
namespace {

using testing::below;
using testing::Random;

// A tracker that serves one plan, and a process in which places are taken at times.
struct Served {
  explicit Served(std::uint64_t height = 1 << 26) {
    for (std::uint64_t i = 0; i < 60; ++i) {
      sizes.push_back(65'536 + 4096 * (i * 7 % 23));
    }
    std::vector<Step> steps = testing::stacked(sizes);
    steps[17].offset = kUnplanned;
    plan.made = testing::plan_of(steps, height);
    for (Step& step : steps) {
      step.offset += step.offset == kUnplanned ? 0 : 4096;
    }
    lower = testing::plan_of(steps, 1 << 25);
    plan.iteration = 60;
    plan.users = 1;
    tracker.open({.counters = &counters, .slab_room = 1 << 30});
    tracker.begin_histories(&histories.sizes, &histories.sites);
    tracker.happened(Event::kTaken);
    tracker.happened(Event::kFollows);
    REQUIRE(tracker.called({.size = sizes[0]}).ask == Ask::kFollow);
    REQUIRE(tracker.answered({.plan = &plan, .best = &plan.made, .position = StepIndex{1}}).ask ==
            Ask::kOpenSlab);
    REQUIRE(tracker.answered({.yes = true}).ask == Ask::kClaim);
    REQUIRE(tracker.answered({}).ask == Ask::kServe);
    REQUIRE(tracker.state().glides);
  }
  // Where the call was placed; kUnplanned where it was not.
  std::uint64_t call(std::uint64_t size, Miss slab, bool shortly) {
    const Call call{.size = size, .alignment_log2 = 6};
    if (const Step* step = shortly ? tracker.next(size) : nullptr; step != nullptr) {
      ++glided;
      if (slab == Miss::kNone) {
        iterations += tracker.placed(size) && tracker.iterated(*best).ask == Ask::kDone ? 1U : 0U;
        return step->offset;
      }
      return follow(tracker.not_placed(call, *step, slab), slab);
    }
    return follow(tracker.called(call), slab);
  }
  // The plan is found again by its eighth call after one that did not match.
  std::uint64_t follow(Action action, Miss slab) {
    while (!ends(action.ask)) {
      const bool again = action.ask == Ask::kFollow && ++followed % 8 == 0;
      plan.users += again ? 1 : 0;
      action = tracker.answered(
          {.yes = true, .miss = slab, .plan = again ? &plan : nullptr, .best = best});
      plan.users -= tracker.state().left_count;
    }
    return action.ask == Ask::kServe ? action.offset : kUnplanned;
  }

  std::vector<std::uint64_t> sizes;
  StoredPlan plan;
  Plan lower;  // found by a search
  const Plan* best = &plan.made;
  Counters counters;
  Tracker tracker;
  testing::Histories histories;
  std::uint64_t glided = 0;
  std::uint64_t iterations = 0;  // that ended with a short way
  std::uint64_t followed = 0;
};

TEST_CASE("tracker: the short way decides as the long one does", "[engine][property]") {
  const std::uint64_t seed = Catch::rngSeed();
  INFO("seed " << seed);
  Random random(seed);
  Served one;
  Served other;
  std::uint64_t at = 1;
  for (int i = 0; i < 20'000 && one.tracker.phase() == Phase::kServing; ++i) {
    const bool wrong = below(random, 50) == 0;
    const std::uint64_t size = wrong ? 777'777 : one.sizes[at++ % one.sizes.size()];
    const Miss slab = below(random, 30) == 0 ? Miss::kOccupied : Miss::kNone;
    if (i == 10'000) {
      one.best = &one.lower;
      other.best = &other.lower;
    }
    REQUIRE(one.call(size, slab, true) == other.call(size, slab, false));
    REQUIRE(one.tracker.phase() == other.tracker.phase());
    REQUIRE(one.tracker.state().serving.placer.position() ==
            other.tracker.state().serving.placer.position());
    REQUIRE(one.tracker.valid());
  }
  CHECK(one.tracker.phase() == Phase::kServing);
  CHECK(one.glided > 10'000);
  CHECK(one.iterations > 100);
  CHECK(one.counters.lowered.get() == 1);
  CHECK(other.glided == 0);
#define COUNTER(name, unit, help) CHECK(one.counters.name.get() == other.counters.name.get());
#include "src/base/counters.def"
#undef COUNTER
}

TEST_CASE("tracker: a slab goes above the blocks that stay in it", "[engine]") {
  const bool shortly = GENERATE(true, false);
  // How often, where a block of a part of the slab's height is in the way for so many iterations.
  const auto evaded = [&](std::uint64_t parts, int iterations) {
    Served served;
    const std::uint64_t height = parts * served.sizes[5];
    Served low(height);
    std::uint64_t at = 1;
    for (int i = 0; i < (iterations + 3) * 60; ++i, ++at) {
      const bool in_way = at % 60 == 5 && i < iterations * 60;
      low.call(low.sizes[at % 60], in_way ? Miss::kOccupied : Miss::kNone, shortly);
      REQUIRE(low.tracker.valid());
    }
    CHECK(low.tracker.phase() == Phase::kServing);
    return low.counters.evaded.get();
  };
  CHECK(evaded(6, 5) == 1);
  CHECK(evaded(12, 5) == 0);
  CHECK(evaded(6, 3) == 0);
  CHECK(evaded(6, 50) == 1);  // blocks of each iteration may stay
}

TEST_CASE("tracker: a plan begins at a quiet point, or when it has waited for an iteration",
          "[engine]") {
  const bool quiet = GENERATE(true, false);
  Served other;  // for its sizes and its plan
  Counters counters;
  Tracker tracker;
  tracker.open({.counters = &counters, .slab_room = 1 << 30});
  tracker.begin_histories(&other.histories.sizes, &other.histories.sites);
  tracker.happened(Event::kTaken);
  tracker.happened(Event::kFollows);
  REQUIRE(tracker.told(5).ask == Ask::kLearn);
  REQUIRE(tracker
              .answered({.yes = true,
                         .plan = &other.plan,
                         .best = &other.plan.made,
                         .position = StepIndex{7},
                         .quiet_level = 100,
                         .length = 60})
              .ask == Ask::kDone);
  REQUIRE(tracker.phase() == Phase::kReady);
  std::uint64_t calls = 0;
  for (Action action; action.ask != Ask::kOpenSlab && calls < 1000; ++calls) {
    const bool now = quiet && calls == 20;
    action = tracker.called({.size = other.sizes[(7 + calls) % 60], .live = now ? 100U : 101U});
    if (action.ask == Ask::kGive) {
      REQUIRE(tracker.answered({.yes = true}).ask == Ask::kDone);
    }
  }
  CHECK(calls == (quiet ? 21 : 60 + kContext));
  CHECK(tracker.answered({.yes = true}).offset == other.plan.made->steps[(6 + calls) % 60].offset);
  CHECK(tracker.phase() == Phase::kServing);
}

}  // namespace
}  // namespace memo
