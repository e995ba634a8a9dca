// Most calls of a plan take a short way through the tracker: it must decide as the long one does.
#include <catch2/catch.hpp>
#include <vector>

#include "src/base/tuning.h"
#include "src/engine/tracker.h"
#include "tests/support/fake_stream.h"
#include "tests/support/histories.h"
#include "tests/support/schedules.h"

namespace memo {
namespace {

using testing::below;
using testing::Random;

// A tracker that serves one plan, and a process in which places are taken at times.
struct ServedPlan final : testing::FakeMemory, testing::FakeKnowledge {
  explicit ServedPlan(std::uint64_t height = 1 << 26) {
    for (std::uint64_t i = 0; i < 60; ++i) {
      sizes.push_back(65'536 + 4096 * (i * 7 % 23));
    }
    std::vector<Step> steps = testing::stacked(sizes);
    steps[17].offset = kUnplanned;
    plan.made = testing::plan_of(steps, height);
    for (Step& step : steps) {
      step.offset += step.offset == kUnplanned ? 0 : 4096;
    }
    plan.better = testing::plan_of(steps, 1 << 25);  // found by a search
    plan.iteration = 60;
    plan.walked = true;
    tracker.open({.counters = &counters, .slab_room = 1 << 30}, this, this);
    tracker.begin_histories(&histories.sizes, &histories.sites);
    tracker.happened(Event::kTaken);
    begins = true;
    REQUIRE(tracker.called({.size = sizes[0]}).kind == Outcome::Kind::kPlace);
    REQUIRE(tracker.state().short_way);
  }
  // Where the call was placed; kUnplanned where it was not.
  std::uint64_t call(std::uint64_t size, Miss slab, bool shortly) {
    const Call call{.size = size, .alignment_log2 = 6};
    answer = slab;
    if (const Step* step = shortly ? tracker.next(size) : nullptr; step != nullptr) {
      ++shortened;
      if (slab == Miss::kNone) {
        tracker.placed(step->offset, size);
        return step->offset;
      }
      return place_of(tracker.not_placed(call, *step, slab));
    }
    return place_of(tracker.called(call));
  }
  static std::uint64_t place_of(const Outcome& outcome) {
    return outcome.kind == Outcome::Kind::kPlace ? outcome.offset : kUnplanned;
  }
  Claimed claim(const Call&, std::uint64_t) override { return {.miss = answer}; }
  // The plan is found again by its eighth call after one that did not match.
  Known follow(const Call&, const StoredPlan*, std::uint64_t) override {
    if (!begins && (++followed % 8 != 0 || withdrawn)) {
      return {};
    }
    ++plan.users;
    const std::uint32_t next = begins ? 1 : 0;
    begins = false;
    return {.plan = &plan, .position = StepIndex{next}};
  }
  void end_iteration(std::uint64_t, std::uint64_t, bool) override { ++iterations; }

  std::vector<std::uint64_t> sizes;
  StoredPlan plan;
  Miss answer = Miss::kNone;  // the slab's
  bool begins = false;        // the next call finds the plan
  bool withdrawn = false;     // and no later one
  Counters counters;
  Tracker tracker;
  testing::Histories histories;
  std::uint64_t shortened = 0;
  std::uint64_t iterations = 0;
  std::uint64_t followed = 0;
};

TEST_CASE("tracker: the short way decides as the long one does", "[engine][property]") {
  const std::uint64_t seed = Catch::rngSeed();
  INFO("seed " << seed);
  Random random(seed);
  ServedPlan one;
  ServedPlan other;
  std::uint64_t at = 1;
  for (int i = 0; i < 20'000 && one.tracker.phase() == Phase::kServing; ++i) {
    const bool wrong = below(random, 100) == 0;
    const std::uint64_t size = wrong ? 777'777 : one.sizes[at++ % one.sizes.size()];
    const Miss slab = below(random, 80) == 0 ? Miss::kOccupied : Miss::kNone;
    if (i == 10'000) {
      one.plan.has_better = true;
      other.plan.has_better = true;
    }
    REQUIRE(one.call(size, slab, true) == other.call(size, slab, false));
    REQUIRE(one.tracker.phase() == other.tracker.phase());
    REQUIRE(one.tracker.state().serving.placer.position() ==
            other.tracker.state().serving.placer.position());
    REQUIRE(one.tracker.valid());
  }
  CHECK(one.tracker.phase() == Phase::kServing);
  CHECK(one.shortened > 10'000);
  CHECK(one.iterations > 100);
  CHECK(one.iterations == other.iterations);
  CHECK(one.counters.lowered.get() == 1);
  CHECK(other.shortened == 0);
#define COUNTER(name, unit, help) CHECK(one.counters.name.get() == other.counters.name.get());
#include "src/base/counters.def"
#undef COUNTER
}

TEST_CASE("tracker: a plan that the store has no more is found again by its own calls",
          "[engine]") {
  ServedPlan served;
  served.withdrawn = true;
  served.call(777'777, Miss::kNone, true);
  CHECK_FALSE(served.tracker.state().short_way);
  for (std::uint64_t at = 1; at <= tuning::kFit; ++at) {
    CHECK_FALSE(served.tracker.state().short_way);
    served.call(served.sizes[at], Miss::kNone, true);
  }
  CHECK(served.tracker.state().short_way);
  const std::uint64_t followed = served.followed;
  for (std::uint64_t at = tuning::kFit + 1; at < 120; ++at) {
    CHECK(served.call(served.sizes[at % 60], Miss::kNone, true) ==
          served.plan.made->steps[at % 60].offset);
  }
  CHECK(served.followed == followed);
  CHECK(served.tracker.valid());
}

TEST_CASE("tracker: a plan begins at a quiet point, or when it has waited for an iteration",
          "[engine]") {
  const bool quiet = GENERATE(true, false);
  class Waiting final : public testing::FakeMemory, public testing::FakeKnowledge {
   public:
    std::size_t mark() override { return 3; }
    Learned learn(const Wanted&) override {
      ++of.plan.users;
      return {.plan = &of.plan, .position = StepIndex{7}, .quiet_level = 100, .length = 60};
    }
    ServedPlan of;  // for its sizes and its plan
  };
  Waiting waiting;
  Counters counters;
  Tracker tracker;
  tracker.open({.counters = &counters, .slab_room = 1 << 30}, &waiting, &waiting);
  tracker.begin_histories(&waiting.of.histories.sizes, &waiting.of.histories.sites);
  tracker.happened(Event::kTaken);
  tracker.told();
  REQUIRE(tracker.phase() == Phase::kReady);
  std::uint64_t calls = 0;
  Outcome outcome;
  while (tracker.phase() != Phase::kServing && calls < 1000) {
    const bool now = quiet && calls == 20;
    outcome =
        tracker.called({.size = waiting.of.sizes[(7 + calls) % 60], .live = now ? 100U : 101U});
    ++calls;
  }
  CHECK(calls == (quiet ? 21 : 60 + kContext));
  CHECK(outcome.kind == Outcome::Kind::kPlace);
  CHECK(outcome.offset == waiting.of.plan.made->steps[(6 + calls) % 60].offset);
  CHECK(tracker.phase() == Phase::kServing);
}

}  // namespace
}  // namespace memo
