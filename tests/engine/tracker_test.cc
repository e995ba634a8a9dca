// The tracker alone, under random events and answers.
#include "src/engine/tracker.h"

#include <catch2/catch.hpp>
#include <map>
#include <memory>
#include <set>
#include <string_view>
#include <vector>

#include "tests/support/fake_stream.h"
#include "tests/support/histories.h"
#include "tests/support/schedules.h"
#include "tests/support/transitions.h"

namespace memo {
namespace {

using testing::below;
using testing::kAllPhases;
using testing::kExpected;
using testing::Random;

// Plans, and whatever else a process may answer, by chance.
class World final : public testing::FakeMemory, public testing::FakeKnowledge {
 public:
  World(std::uint64_t seed, bool trace) : random(seed) {
    for (std::uint64_t plan = 0; plan < kFixed; ++plan) {
      std::vector<std::uint64_t> sizes;
      for (std::uint64_t i = 0; i < 20 + 15 * plan; ++i) {
        sizes.push_back(65'536 + 4096 * (i * (7 + 2 * plan) % 40));
      }
      steps_.push_back(testing::stacked(sizes));
      if (plan == 2) {
        steps_.back()[5].offset = kUnplanned;
      }
      add(schedule_of(steps_.back(), nullptr));
    }
    for (std::uint32_t i = 0; i < 12; ++i) {
      rules_.push_back({.rule = {.constant = 0, .slope = 1.0 + i % 3, .curve = 0, .x0 = 0, .x1 = 0},
                        .site = 0,
                        .lifetime = 12 - i,
                        .alignment_log2 = 6});
      for (std::uint32_t under = 0; under < i; ++under) {
        supports_.push_back({StepIndex{i}, StepIndex{under}});
      }
    }
    symbolic_ = {rules_.data(), 12, supports_.data(), static_cast<std::uint32_t>(supports_.size()),
                 0};
    add(schedule_of(steps_[0], &symbolic_));
    tracker.open({.counters = &counters, .slab_room = 1 << 28, .keeps_trace = trace}, this, this);
  }

  void check() {
    saw();
    REQUIRE(tracker.valid());
    for (const auto& plan : plans) {
      const bool mine = tracker.state().serving.plan == plan.get();
      REQUIRE(plan->users == (mine ? 1U : 0U) + forgotten_[plan.get()]);
    }
  }
  void call() {
    const TrackerState& state = tracker.state();
    const Placer& placer = state.serving.placer;
    std::uint64_t size = 65'536 + 4096 * below(random, 40);
    if (tracker.phase() == Phase::kServing && below(random, 100) != 0 && !detour) {
      size = placer.schedule()->at(placer.position()).size;
    } else if (tracker.phase() == Phase::kReady && below(random, 20) != 0) {
      size = state.serving.plan->made->at(state.serving.cursor.position()).size;
    } else if (tracker.searching() && looping) {
      size = 65'536 + 4096 * (calls % 13);
    }
    ++calls;
    live = below(random, 1000);
    peak = std::max(peak, below(random, 300) == 0 ? peak + peak / 2 + 100 : peak);
    const Outcome outcome = tracker.called({.size = size,
                                            .alignment_log2 = 6,
                                            .site = looping ? 0 : 1 + calls % 11,
                                            .live = live,
                                            .peak = peak});
    check();
    const std::uint64_t counted = counters.planned_allocations.get() +
                                  counters.at_hand_allocations.get() +
                                  counters.other_allocations.get();
    REQUIRE(counted == counters.large_allocations.get());
    passed += outcome.kind == Outcome::Kind::kNothing ? 1 : 0;
    REQUIRE(counted + passed == calls + grown);
  }
  void happen(Event event) {
    tracker.happened(event);
    check();
  }
  void abandon() {
    if (StoredPlan* plan = tracker.state().serving.plan; plan != nullptr) {
      ++forgotten_[plan];  // an owner that is not whole releases nothing
    }
    tracker.abandon();
    check();
  }
  void saw() {
    const Phase now = tracker.phase();
    edges.insert({before_, now});
    before_ = now;
  }
  void remember() { tracker.begin_histories(&histories_.sizes, &histories_.sites); }

  Random random;
  Counters counters;
  Tracker tracker;
  std::vector<std::unique_ptr<StoredPlan>> plans;
  std::set<std::pair<Phase, Phase>> edges;
  std::uint64_t calls = 0;
  std::uint64_t grown = 0;
  std::uint64_t passed = 0;
  std::uint64_t live = 0;
  std::uint64_t peak = 1000;
  bool looping = false;
  bool detour = false;
  std::uint32_t kindness = 10;  // of so many answers one is no

 private:
  static constexpr std::uint64_t kFixed = 4;  // plans; one more is parametric
  static Schedule schedule_of(const std::vector<Step>& steps, const SymbolicPlan* symbolic) {
    Schedule schedule;
    schedule.steps = steps.data();
    schedule.count =
        symbolic != nullptr ? symbolic->count : static_cast<std::uint32_t>(steps.size());
    schedule.height = 1 << 24;
    schedule.symbolic = symbolic;
    return schedule;
  }
  void add(const Schedule& schedule) {
    auto plan = std::make_unique<StoredPlan>();
    plan->made = Plan::copy_of(schedule);
    plan->better = Plan::copy_of(schedule);
    plan->iteration = schedule.count;
    plan->walked = true;
    plans.push_back(std::move(plan));
  }
  StoredPlan* some_plan(std::uint64_t of) {
    StoredPlan* plan = plans[below(random, of)].get();
    ++plan->users;
    return plan;
  }
  bool yes() { return below(random, kindness) != 0; }

  Claimed claim(const Call&, std::uint64_t offset) override {
    REQUIRE(offset != kUnplanned);
    REQUIRE(has_memory_);
    return {.miss = yes() ? Miss::kNone : Miss::kOccupied};
  }
  Given give(const Call&) override {
    return {.start = yes() ? &block_ : nullptr,
            .busy = below(random, 2) == 0,
            .lacks = below(random, 2)};
  }
  Opened open(const Opening& wanted) override {
    REQUIRE(wanted.schedule.count != 0);
    REQUIRE(wanted.plan.users != 0);
    if (yes()) {
      has_memory_ = true;
      return Opened::kOpened;
    }
    return yes() ? Opened::kRefused : Opened::kBusy;
  }
  void begin_serving(bool, bool) override { REQUIRE(tracker.phase() == Phase::kServing); }
  void end_iteration(std::uint64_t, std::uint64_t, bool) override {
    StoredPlan& plan = *tracker.state().serving.plan;
    plan.has_better = plan.has_better || below(random, 5) == 0;
  }
  void trim(std::uint64_t) override { REQUIRE(tracker.state().serving.plan != nullptr); }
  void give_back(bool height) override { has_memory_ = has_memory_ && !height; }

  bool can_learn() override {
    if (yes()) {
      return false;
    }
    remember();
    return true;
  }
  std::size_t mark() override { return below(random, 6); }
  bool note(const Call&) override { return below(random, 400) != 0; }
  Learned learn(const Wanted&) override {
    if (!yes()) {
      return {};
    }
    StoredPlan* plan = some_plan(kFixed);
    return {.plan = plan,
            .position = StepIndex{static_cast<std::uint32_t>(below(random, plan->made->count))},
            .quiet_level = below(random, 100),
            .length = plan->made->count,
            .trial = static_cast<std::uint32_t>(below(random, 2) * below(random, 100))};
  }
  std::uint32_t learn_sites(const Wanted&) override {
    return static_cast<std::uint32_t>(below(random, 2) * 12);
  }
  Known follow(const Call&, const StoredPlan*, std::uint64_t) override {
    return below(random, 60) == 0 ? found(some_plan(plans.size())) : Known();
  }
  Known guess(const Call&, const Schedule&, StepIndex) override {
    return below(random, 3) == 0 ? found(some_plan(kFixed)) : Known();
  }
  bool complete(StoredPlan&) override { return yes(); }
  void leave(StoredPlan& plan, std::uint32_t) override {
    REQUIRE(plan.users != 0);
    --plan.users;
  }
  void tell_phase(Phase phase) override { REQUIRE(tracker.phase() == phase); }
  Known found(StoredPlan* plan) {
    const auto position = static_cast<std::uint32_t>(below(random, plan->made->count));
    return {.plan = plan,
            .position = StepIndex{plan->made->symbolic != nullptr ? position + 1 : position},
            .first = 65'536 + 4096 * below(random, 40)};
  }

  bool has_memory_ = false;  // the slab
  Phase before_ = Phase::kIdle;
  std::map<const StoredPlan*, std::uint32_t> forgotten_;
  std::vector<std::vector<Step>> steps_;
  std::vector<SymbolicStep> rules_;
  std::vector<Support> supports_;
  SymbolicPlan symbolic_;
  testing::Histories histories_;
};

// Threads come and go, forks and maintenance come in between.
void live(World& world, std::uint64_t events) {
  for (std::uint64_t i = 0; i < events; ++i) {
    if (below(world.random, 500) == 0) {
      world.looping = !world.looping;
      world.detour = below(world.random, 4) == 0;
    }
    switch (below(world.random, 400)) {
      case 0:
        if (below(world.random, 3) == 0) {
          world.abandon();
          world.happen(Event::kForked);  // nobody's lane: nothing happens
        } else {
          world.happen(Event::kLeft);
        }
        break;
      case 1:
        world.happen(Event::kForked);
        break;
      case 2:
      case 3:
        world.happen(Event::kWoken);
        break;
      case 4:
        world.tracker.grown(1 << 20);
        ++world.grown;
        break;
      case 5:
      case 6:
        world.tracker.told();
        world.check();
        break;
      default:
        world.call();
    }
    if (world.tracker.phase() == Phase::kIdle && below(world.random, 3) == 0) {
      world.happen(Event::kTaken);
    }
  }
}

TEST_CASE("tracker: whatever happens and is answered, its books agree", "[engine][property]") {
  const std::uint64_t seed = Catch::rngSeed();
  INFO("seed " << seed);
  std::set<std::pair<Phase, Phase>> edges;
  for (const bool trace : {false, true}) {
    World world(seed + (trace ? 1 : 0), trace);
    for (const std::uint32_t kindness : {4U, 10U, 50U}) {
      world.kindness = kindness;
      live(world, 20'000);
    }
    edges.insert(world.edges.begin(), world.edges.end());
  }
  for (std::uint32_t number = 0; number < kEvents; ++number) {
    for (const Phase from : kAllPhases) {
      const char to = kExpected[number].learns[static_cast<std::size_t>(from)];
      if (to != '.') {
        INFO(kExpected[number].name << " in " << name_of(from));
        CHECK(edges.contains({from, static_cast<Phase>(std::string_view("ILRSP").find(to))}));
      }
    }
  }
}

}  // namespace
}  // namespace memo
