// Live runs, played again: a tracker that is told the same decides the same, and counts the same,
// with no engine, plan store, pool or memory behind it.
#include <catch2/catch.hpp>
#include <map>
#include <mutex>
#include <string_view>
#include <thread>
#include <vector>

#include "tests/support/engines.h"
#include "tests/support/histories.h"
#include "tests/support/shaped_loop.h"

namespace memo {
namespace {

using testing::below;
using testing::Driver;
using testing::Program;
using testing::Random;

// One lane's events. Plans are kept as they were: their place in the store comes to belong to others.
struct Recording {
  std::vector<TapeEntry> entries;
  std::map<std::uint64_t, StoredPlan> plans;  // by generation
  const StoredPlan* at_hand = nullptr;        // in the store, before the entry to come

  void add(const TrackerState& tracker, TapeEntry entry) {
    if (Answer& answer = entry.answer; answer.best != nullptr) {
      const StoredPlan& plan = answer.plan != nullptr ? *answer.plan : *at_hand;
      StoredPlan& kept = plans[plan.generation];
      if (!kept.made) {
        kept.made = Plan::copy_of(*plan.made);
        kept.iteration = plan.iteration;
      }
      Plan& best = answer.best == &plan.made ? kept.made : kept.better;
      if (!best) {
        best = Plan::copy_of(**answer.best);
      }
      answer.best = &best;
      answer.plan = answer.plan != nullptr ? &kept : nullptr;
    }
    at_hand = tracker.serving.plan;
    entries.push_back(entry);
  }
};

std::mutex recordings_lock;
std::map<const TrackerState*, Recording> recordings;  // of the engine at hand, one a lane

void record(const TrackerState& tracker, const TapeEntry& entry) {
  const std::lock_guard held(recordings_lock);
  recordings[&tracker].add(tracker, entry);
}

// A tracker of its own for one lane's tape.
class Replay {
 public:
  explicit Replay(const Lane& lane) {
    tracker_.open({.counters = &counters, .slab_room = lane.slab().space().bytes()});
  }
  void play(const std::vector<TapeEntry>& entries) {
    for (const TapeEntry& entry : entries) {
      one(entry);
      ++at;
    }
  }

  Counters counters;
  std::size_t at = 0;            // of the entries
  std::uint64_t short_ways = 0;  // calls that went the short way

 private:
  void one(const TapeEntry& entry) {
    switch (entry.kind) {
      case TapeEntry::Kind::kHistories:
        tracker_.begin_histories(&histories_.sizes, &histories_.sites);
        return;
      case TapeEntry::Kind::kGrown:
        tracker_.grown(entry.number);
        return;
      case TapeEntry::Kind::kCalled:
        step_ = tracker_.next(entry.call.size);
        if (step_ != nullptr) {
          call_ = entry.call;
          ++short_ways;
          REQUIRE(entry.action.ask == Ask::kClaim);
          REQUIRE(entry.action.offset == step_->offset);
          return;
        }
        compare(tracker_.called(entry.call), entry.action);
        return;
      case TapeEntry::Kind::kAnswered:
        if (step_ != nullptr) {
          if (ends_iteration_) {
            iterated(entry);
          } else {
            placed(entry);
          }
          return;
        }
        prepare(entry.answer);
        compare(tracker_.answered(entry.answer), entry.action);
        return;
      case TapeEntry::Kind::kTold:
        compare(tracker_.told(entry.number), entry.action);
        return;
      case TapeEntry::Kind::kHappened:
        compare(tracker_.happened(entry.event), entry.action);
        return;
    }
  }
  void placed(const TapeEntry& entry) {
    if (entry.answer.miss != Miss::kNone) {
      compare(tracker_.not_placed(call_, *step_, entry.answer.miss), entry.action);
    } else if (tracker_.placed(call_.size)) {
      REQUIRE(entry.action.ask == Ask::kImproved);
      ends_iteration_ = true;
      effects_ = entry.action.effects;
      return;
    } else {
      REQUIRE(entry.action.ask == Ask::kServe);
      REQUIRE(entry.action.offset == step_->offset);
    }
    step_ = nullptr;
  }
  void iterated(const TapeEntry& entry) {
    const Action action = tracker_.iterated(*entry.answer.best);
    REQUIRE(action.effects == (effects_ | entry.action.effects));
    REQUIRE(entry.action.ask == Ask::kServe);
    REQUIRE(entry.action.offset == step_->offset);
    step_ = nullptr;
    ends_iteration_ = false;
  }
  // What whoever performs an action does before it answers.
  void prepare(const Answer& answer) {
    if (last_ == Ask::kPrepare && answer.yes) {
      REQUIRE(tracker_.make_room(*(*answer.best)->symbolic));
    }
  }
  void compare(const Action& action, const Action& recorded) {
    REQUIRE(action.ask == recorded.ask);
    REQUIRE(action.effects == recorded.effects);
    REQUIRE(action.offset == recorded.offset);
    last_ = action.ask;
    counters.learned_allocations.add((action.effects & kNote) != 0 ? 1 : 0);
  }

  Tracker tracker_;
  testing::Histories histories_;
  const Step* step_ = nullptr;  // of a call that goes the short way
  bool ends_iteration_ = false;
  std::uint32_t effects_ = 0;  // of its question, if so
  Call call_;
  Ask last_ = Ask::kDone;
};

struct Recorded {
  std::uint64_t short_ways = 0;
  Counters counters;
};

// Runs `function(engine)` live, and each lane's tape again.
template <typename Function>
void live_and_again(const Options& options, Recorded& result, Function&& function) {
  recordings.clear();
  Engine::Host host;
  host.tape = record;
  testing::OwnEngine own(options, host);
  function(own);
  REQUIRE(own.engine.lanes.count() != 0);
  for (std::uint32_t number = 0; number < own.engine.lanes.count(); ++number) {
    const Lane& lane = own.engine.lanes.at(number);
    Replay replay(lane);
    const auto& entries = recordings.at(&lane.tracker().state()).entries;
    INFO("lane " << number << ", of " << entries.size() << " entries");
    replay.play(entries);
    result.short_ways += replay.short_ways;
    result.counters.add(lane.counters);
#define COUNTER(name, unit, help)                                  \
  if (std::string_view(#name) != "released") {                     \
    INFO(#name);                                                   \
    CHECK(replay.counters.name.get() == lane.counters.name.get()); \
  }
#include "src/base/counters.def"
#undef COUNTER
  }
  recordings.clear();
}

// Blocks of the first calls live into the next iteration, as gradients do.
Program training(std::uint64_t seed) {
  Program program = testing::program_of(seed, 60);
  for (std::size_t i = 0; i < 8; ++i) {
    program[i].lifetime = 60 + static_cast<std::uint32_t>(i);
  }
  return program;
}

TEST_CASE("replay: a training loop decides the same again", "[engine]") {
  Recorded result;
  live_and_again({}, result, [](testing::OwnEngine& own) {
    testing::drive(own, [](Engine& engine, Driver& driver, const Lane& lane) {
      Random random(5);
      const Program program = training(1);
      for (int i = 0; i < 60; ++i) {
        engine.iteration();
        driver.iterate(program);
        if (below(random, 6) == 0) {
          driver.step({65'536 + below(random, 100'000), 3});
        }
        if (below(random, 12) == 0) {
          engine.upkeep.give_back();
        }
        if (i == 30) {
          engine.note_foreign_growth(1 << 20);
        }
      }
      CHECK(lane.phase() == Phase::kServing);
      driver.iterate(training(2), 20);  // the program changes
    });
  });
  CHECK(result.counters.planned_allocations.get() > 2000);
  CHECK(result.counters.diverged.get() != 0);
  CHECK(result.short_ways > 1000);
}

TEST_CASE("replay: alternating programs decide the same again", "[engine]") {
  const bool little_room = GENERATE(false, true);
  Options options;
  options.PLAN_TIME = 0;
  Recorded result;
  const Program one = testing::program_of(11);
  const Program other = testing::program_of(12, 55);
  if (little_room) {
    options.SLAB_LIMIT = 700'000;  // enough for one of the plans at most
  }
  live_and_again(options, result, [&](testing::OwnEngine& own) {
    testing::drive(own, [&](Engine& engine, Driver& driver, const Lane&) {
      for (int i = 0; i < 40; ++i) {
        driver.iterate(one, 3);
        driver.iterate(other, 2);
        if (i == 10 || i == 20) {
          const RecursionGuard guard;
          engine.plans.search(guard);
        }
      }
    });
  });
  CHECK((result.counters.planned_allocations.get() > 3000 || little_room));
  CHECK(result.counters.plans.get() >= 2);
}

TEST_CASE("replay: iterations of random length decide the same again", "[engine]") {
  load_unwinder();
  Recorded result;
  live_and_again({}, result, [](testing::OwnEngine& own) {
    testing::drive(own, [](Engine&, Driver& driver, const Lane&) {
      Random random(3);
      testing::ShapedLoop loop{driver};
      for (int i = 0; i < 300; ++i) {
        loop.extra = i > 200 && i % 7 == 0 ? 77'777 : 0;
        loop.iterate(30 + below(random, 300));
      }
    });
  });
#if defined(__x86_64__) || defined(__aarch64__)
  CHECK(result.counters.shapes.get() > 50);
#endif
  CHECK(result.counters.pooled_allocations.get() > 1000);
}

TEST_CASE("replay: two threads decide the same again", "[engine]") {
  Recorded result;
  live_and_again({}, result, [](testing::OwnEngine& own) {
    std::vector<std::thread> threads;
    std::atomic<std::uint64_t> wrong{0};
    for (std::uint64_t number = 0; number < 2; ++number) {
      threads.emplace_back([&own, &wrong, number] {
        Random random(number);
        Driver driver(own.engine, 1 + (number << 40));
        const Program common = testing::program_of(31);
        const Program mine = testing::program_of(40 + number);
        for (int i = 0; i < 60; ++i) {
          driver.iterate(i / 15 % 2 == 0 ? common : mine);
          if (below(random, 20) == 0) {
            own.engine.upkeep.give_back();
          }
        }
        driver.free_due(UINT64_MAX);
        wrong += driver.wrong;
        own.engine.thread_ended();
      });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
    CHECK(wrong == 0);
  });
  CHECK(result.counters.planned_allocations.get() > 500);
}

}  // namespace
}  // namespace memo
