// The tracker alone: where it gives a search, a plan or a guess up.
#include <catch2/catch.hpp>
#include <utility>
#include <vector>

#include "src/engine/tracker.h"
#include "tests/support/fake_stream.h"
#include "tests/support/histories.h"
#include "tests/support/schedules.h"

namespace memo {
namespace {

using testing::below;
using testing::Random;

// A lane that learns. Every place is granted, and no period of sizes is found.
class LearningLane final : public testing::FakeMemory, public testing::FakeKnowledge {
 public:
  LearningLane() {
    tracker.open({.counters = &counters, .slab_room = 1 << 28}, this, this);
    tracker.begin_histories(&histories_.sizes, &histories_.sites);
    tracker.happened(Event::kTaken);
  }

  void call(const Call& call) { tracker.called(call); }
  // Serves the first `calls` of the plan, over and over.
  void serve(StoredPlan& plan, std::uint64_t calls) {
    fits = &plan;
    for (std::uint64_t i = 0; i < calls; ++i) {
      call({.size = plan.made->steps[i % plan.made->count].size});
    }
    REQUIRE(tracker.phase() == Phase::kServing);
  }

  Tracker tracker;
  Counters counters;
  StoredPlan* fits = nullptr;  // what the next call finds
  std::uint32_t trial = 0;     // what it is to serve before it is believed
  bool has_memory = true;      // for a slab
  bool log_full = false;       // at the next call
  std::uint32_t noted = 0;     // calls
  std::uint32_t guesses = 0;
  std::uint32_t sites_learned = 0;
  std::uint32_t forgotten = 0;  // logs
  std::uint32_t left = 0;       // plans
  std::uint32_t verdict = 0;    // on them

 private:
  Opened open(const Opening&) override { return has_memory ? Opened::kOpened : Opened::kRefused; }
  Given give(const Call&) override { return {.start = &block_, .lacks = 1}; }
  bool note(const Call&) override {
    ++noted;
    return !std::exchange(log_full, false);
  }
  void forget_calls() override { ++forgotten; }
  std::uint32_t learn_sites(const Wanted&) override {
    ++sites_learned;
    return 20;
  }
  Known follow(const Call&, const StoredPlan*, std::uint64_t) override {
    StoredPlan* plan = std::exchange(fits, nullptr);
    if (plan == nullptr) {
      return {};
    }
    ++plan->users;
    return {.plan = plan, .position = StepIndex{1}, .trial = trial};
  }
  Known guess(const Call&, const Schedule&, StepIndex) override {
    ++guesses;
    return {};
  }
  void leave(StoredPlan& plan, std::uint32_t its_verdict) override {
    --plan.users;
    ++left;
    verdict |= its_verdict;
  }

  testing::Histories histories_;
};

// A plan of forty different sizes.
struct OfForty : StoredPlan {
  OfForty() {
    made = testing::plan_of(testing::stacked(testing::sizes(40)), 1 << 24);
    iteration = 40;
    walked = true;
  }
};
constexpr std::uint64_t kStrange = 1 << 20;  // bytes of a call that is none of its steps

TEST_CASE("tracker: a found plan that gets no memory costs nothing that is noted", "[engine]") {
  OfForty plan;
  LearningLane lane;
  lane.fits = &plan;
  lane.trial = 1024;
  lane.has_memory = false;
  lane.call({.size = plan.made->steps[0].size});
  CHECK(lane.tracker.phase() == Phase::kPooling);
  CHECK(lane.left == 1);
  CHECK(plan.users == 0);
  CHECK(lane.forgotten == 0);
  CHECK(lane.counters.pooled_allocations.get() == 1);
}

// Whether the plan, which may be another process', is withdrawn when another program comes after so many calls.
bool withdrawn_after(std::uint64_t calls, bool strange = false) {
  OfForty plan;
  plan.walked = !strange;
  LearningLane lane;
  lane.serve(plan, calls);
  for (std::uint64_t i = 0; lane.tracker.phase() == Phase::kServing; ++i) {
    lane.call({.size = kStrange + 4096 * i});
  }
  return (lane.verdict & kWithdrawn) != 0;
}

TEST_CASE("tracker: a plan that breaks in its second iteration is not tried again", "[engine]") {
  CHECK(withdrawn_after(60));
  CHECK_FALSE(withdrawn_after(110));
}

TEST_CASE("tracker: another process' plan that has come for most of an iteration is kept",
          "[engine]") {
  CHECK(withdrawn_after(15, true));
  CHECK_FALSE(withdrawn_after(30, true));
}

// Whether a plan that begins as this one does is looked for at a wrong call after so many steps.
bool guesses_after(std::uint64_t steps) {
  OfForty plan;
  LearningLane lane;
  lane.serve(plan, 40 + steps);
  lane.call({.size = kStrange});
  return lane.guesses != 0;
}

TEST_CASE("tracker: another plan is guessed at an iteration's first calls, not at the sixth",
          "[engine]") {
  CHECK(guesses_after(3));
  CHECK_FALSE(guesses_after(5));
}

TEST_CASE("tracker: a stream that has filled some logs without a period fills no more",
          "[engine]") {
  Random random(1);
  LearningLane lane;
  for (int i = 0; i < 4000; ++i) {
    lane.log_full = i % 200 == 0;
    lane.call({.size = 65'536 + 8 * below(random, 100'000), .peak = 1000});
  }
  CHECK(lane.tracker.phase() == Phase::kPooling);
  CHECK(lane.counters.recorder_full.get() >= 5);
  CHECK(lane.counters.recorder_full.get() <= 7);
}

TEST_CASE("tracker: a loop that comes after logs in vain is noted, or that of the next thread",
          "[engine]") {
  Random random(1);
  LearningLane lane;
  const auto stray = [&](std::uint32_t calls) {
    for (std::uint32_t i = 0; i < calls; ++i) {
      lane.call({.size = 65'536 + 8 * below(random, 100'000), .peak = 1000});
    }
  };
  const auto loop = [&](std::uint32_t calls) {
    for (std::uint32_t i = 0; i < calls; ++i) {
      lane.call({.size = 65'536 + 4'096 * (i % 20), .peak = 1000});
    }
  };
  for (int i = 0; i < 20; ++i) {
    lane.log_full = true;
    stray(200);
  }
  lane.log_full = false;
  std::uint32_t before = lane.noted;
  stray(tuning::kMaxLog);
  CHECK(lane.noted == before);
  SECTION("a loop") {
    loop(200);
    CHECK(lane.noted >= before + 100);
    // In vain again: twice as many calls pass.
    lane.log_full = true;
    loop(1);
    before = lane.noted;
    loop(tuning::kMaxLog + tuning::kMaxLog / 2);
    CHECK(lane.noted == before);
    loop(tuning::kMaxLog / 2);
    CHECK(lane.noted > before);
  }
  SECTION("another thread") {
    lane.tracker.happened(Event::kLeft);
    lane.tracker.happened(Event::kTaken);
    stray(1000);
    CHECK(lane.noted == before + 1000);
  }
}

TEST_CASE("tracker: plans of call sites are made a few times, and then no more", "[engine]") {
  Random random(1);
  LearningLane lane;
  for (std::uint64_t i = 0; i < 16'000; ++i) {
    lane.call({.size = 65'536 + 8 * below(random, 100'000), .site = 1 + i % 20, .peak = 1000});
  }
  CHECK(lane.sites_learned >= 3);
  CHECK(lane.sites_learned <= 6);
}

}  // namespace
}  // namespace memo
