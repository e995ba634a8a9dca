// The tracker alone: where it gives a search, a plan or a guess up.
#include <catch2/catch.hpp>
#include <map>
#include <vector>

#include "src/engine/tracker.h"
#include "tests/support/histories.h"
#include "tests/support/schedules.h"

namespace memo {
namespace {

using testing::below;
using testing::Random;

// A lane that learns. Every place is granted, and no period of sizes is found.
class LearningLane {
 public:
  LearningLane() {
    tracker.open({.counters = &counters, .slab_room = 1 << 28});
    tracker.happened(Event::kTaken);
    tracker.begin_histories(&histories_.sizes, &histories_.sites);
    tracker.happened(Event::kFollows);
  }

  // What was done besides at this call; `asked` says what was asked so far.
  std::uint32_t call(const Call& call) {
    Action action = tracker.called(call);
    std::uint32_t effects = action.effects;
    while (!ends(action.ask)) {
      ++asked[action.ask];
      action = tracker.answered(answer(action.ask));
      effects |= action.effects;
    }
    return effects;
  }
  // Serves the first `calls` of the plan, over and over.
  void serve(StoredPlan& plan, std::uint64_t calls) {
    fits_ = &plan;
    for (std::uint64_t i = 0; i < calls; ++i) {
      call({.size = plan.made->steps[i % plan.made->count].size});
    }
    REQUIRE(tracker.phase() == Phase::kServing);
  }

  Tracker tracker;
  Counters counters;
  std::map<Ask, std::uint32_t> asked;
  bool strange = false;  // what is found: no iteration of it has come in this process

 private:
  Answer answer(Ask ask) {
    switch (ask) {
      case Ask::kFollow: {
        StoredPlan* plan = std::exchange(fits_, nullptr);
        if (plan == nullptr) {
          return {};
        }
        ++plan->users;
        return {.yes = true,
                .strange = strange,
                .plan = plan,
                .best = &plan->made,
                .position = StepIndex{1}};
      }
      case Ask::kImproved:
        return {.best = &tracker.state().serving.plan->made};
      case Ask::kLearnSites:
        return {.yes = true, .length = 20};
      case Ask::kLearn:
      case Ask::kGuess:
        return {};
      default:
        return {.yes = true};
    }
  }

  testing::Histories histories_;
  StoredPlan* fits_ = nullptr;  // what the next call finds
};

// A plan of forty different sizes.
struct OfForty : StoredPlan {
  OfForty() {
    made = testing::plan_of(testing::stacked(testing::sizes(40)), 1 << 24);
    iteration = 40;
  }
};
constexpr std::uint64_t kStrange = 1 << 20;  // bytes of a call that is none of its steps

TEST_CASE("tracker: a found plan that gets no memory costs nothing that is noted", "[engine]") {
  OfForty plan;
  plan.users = 1;
  LearningLane lane;
  REQUIRE(lane.tracker.called({.size = plan.made->steps[0].size}).ask == Ask::kFollow);
  REQUIRE(
      lane.tracker
          .answered({.plan = &plan, .best = &plan.made, .position = StepIndex{1}, .trial = 1024})
          .ask == Ask::kOpenSlab);
  const Action refused = lane.tracker.answered({});
  CHECK(refused.ask == Ask::kGive);
  CHECK((refused.effects & kRelease) != 0);
  CHECK((refused.effects & kRestartLog) == 0);
}

// Whether the plan, which may be another process', is withdrawn when another program comes after so many calls.
bool withdrawn_after(std::uint64_t calls, bool strange = false) {
  OfForty plan;
  LearningLane lane;
  lane.strange = strange;
  lane.serve(plan, calls);
  std::uint32_t effects = 0;
  for (std::uint64_t i = 0; lane.tracker.phase() == Phase::kServing; ++i) {
    effects |= lane.call({.size = kStrange + 4096 * i});
  }
  return (effects & kWithdraw) != 0;
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
  return lane.asked[Ask::kGuess] != 0;
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
    lane.call(
        {.size = 65'536 + 8 * below(random, 100'000), .peak = 1000, .log_full = i % 200 == 0});
  }
  CHECK(lane.tracker.phase() == Phase::kPooling);
  CHECK(lane.counters.recorder_full.get() >= 5);
  CHECK(lane.counters.recorder_full.get() <= 7);
}

TEST_CASE("tracker: plans of call sites are made a few times, and then no more", "[engine]") {
  Random random(1);
  LearningLane lane;
  for (std::uint64_t i = 0; i < 16'000; ++i) {
    lane.call({.size = 65'536 + 8 * below(random, 100'000), .site = 1 + i % 20, .peak = 1000});
  }
  CHECK(lane.asked[Ask::kLearnSites] >= 3);
  CHECK(lane.asked[Ask::kLearnSites] <= 6);
}

}  // namespace
}  // namespace memo
