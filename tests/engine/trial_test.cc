// Plans on trial: loops that are served from their fourth copy on, before they have run for long
// enough to be believed, and what it costs where they were parts of an iteration.
#include <catch2/catch.hpp>

#include "src/base/tuning.h"
#include "tests/support/engines.h"

namespace memo {
namespace {

using testing::Driver;
using testing::OwnEngine;
using testing::Program;
using testing::program_of;
using testing::ProgramStep;

// An iteration whose last block lives until the next one has made its own.
Program keeping(std::uint64_t seed, std::uint32_t count) {
  Program program = program_of(seed, count);
  program.push_back({std::uint64_t{1} << 20, count + 2});
  return program;
}

// Twelve equal layers, each of which hands a block on to the next, between two other calls.
Program layers() {
  Program program{{300'000, 1}, {310'000, 1}};
  for (int layer = 0; layer < 12; ++layer) {
    for (std::uint32_t call = 0; call < 8; ++call) {
      program.push_back({100'000 + 10'000 * call, call == 7 ? 9U : 1U});
    }
  }
  program.insert(program.end(), 6, {400'000, 1});
  program.back().size = 420'000;
  return program;
}

bool on_trial(const Lane& lane) {
  return lane.tracker().state().confidence.on_trial();
}

TEST_CASE("trial: a loop that keeps its result is served from its fourth iteration on",
          "[engine]") {
  const std::uint32_t calls = GENERATE(3U, 6U, 20U, 40U);
  INFO(calls << " calls");
  testing::drive([&](Engine& engine, Driver& driver, const Lane& lane) {
    const Program program = keeping(11, calls);
    // A context must have been seen before: loops of few calls need more of them.
    const std::uint32_t learned = 3 + tuning::kRepeatContext / (calls + 1) + 1;
    driver.iterate(program, learned);
    REQUIRE(lane.phase() == Phase::kServing);
    CHECK(on_trial(lane));
    const std::uint64_t before = lane.counters.planned_allocations.get();
    driver.iterate(program, 5);
    CHECK(lane.counters.planned_allocations.get() - before == 5 * program.size());
    CHECK(engine.lanes.valid());
  });
}

TEST_CASE("trial: a plan that keeps its promise is believed, and serves on", "[engine]") {
  testing::drive([&](Engine& engine, Driver& driver, const Lane& lane) {
    const Program program = keeping(12, 20);
    driver.iterate(program, 5);
    REQUIRE(on_trial(lane));
    driver.iterate(program, 60);
    CHECK_FALSE(on_trial(lane));
    CHECK(lane.tracker().state().short_way);
    CHECK(lane.counters.plans.get() == 1);
    CHECK(lane.counters.diverged.get() == 0);
    CHECK(engine.lanes.valid());
  });
}

TEST_CASE("trial: a short loop's ends at the first other call, a long one's does not", "[engine]") {
  const bool is_long = GENERATE(false, true);
  testing::drive([&](Engine& engine, Driver& driver, const Lane& lane) {
    driver.iterate(keeping(18, is_long ? 44 : 24), 5);
    REQUIRE(on_trial(lane));
    driver.release(driver.take(77'777));
    CHECK(on_trial(lane) == is_long);
    CHECK(lane.counters.diverged.get() == (is_long ? 0 : 1));
    CHECK(engine.lanes.valid());
  });
}

TEST_CASE("trial: a part of an iteration costs no evidence", "[engine]") {
  testing::drive([&](Engine& engine, Driver& driver, const Lane& lane) {
    const Program program = layers();
    driver.iterate(program, 5);
    CHECK(lane.counters.diverged.get() >= 1);
    CHECK(lane.counters.diverged.get() < tuning::kNoMoreTrials);
    const std::uint64_t before = lane.counters.planned_allocations.get();
    driver.iterate(program, 3);
    CHECK(lane.counters.planned_allocations.get() - before == 3 * program.size());
    CHECK(lane.tracker().state().serving.plan->iteration == program.size());
    CHECK(engine.lanes.valid());
  });
}

// Thirty equal calls, as a convolution makes them for its pieces.
constexpr ProgramStep kPiece{77'000, 1};

Program with_pieces() {
  Program program = program_of(16, 100);
  program.insert(program.begin() + 60, 30, kPiece);
  return program;
}

// Of the loop within the iteration another thread, which does nothing else, has a plan.
TEST_CASE("trial: a part that another thread has a plan of costs no evidence", "[engine]") {
  const bool early = GENERATE(false, true);
  INFO("its plan is there from the beginning " << early);
  testing::drive([&](Engine& engine, Driver& driver, const Lane& lane) {
    const Program program = with_pieces();
    driver.iterate({{200'000, 1}}, early ? 2 : 1);
    const auto other = [&] {
      testing::in_thread([&] {
        Driver second(engine, 1'000'000);
        second.iterate({kPiece}, 300);
        CHECK(engine.lanes.at(1).phase() == Phase::kServing);
      });
    };
    if (early) {
      driver.iterate(program_of(17, 70));  // the thread's beginning is past
      other();
    }
    driver.iterate(program);
    if (!early) {
      other();
    }
    driver.iterate(program, 3);
    const std::uint64_t before = lane.counters.planned_allocations.get();
    driver.iterate(program, 3);
    CHECK(lane.counters.planned_allocations.get() - before == 3 * program.size());
    CHECK(engine.lanes.valid());
  });
}

// The other way round: the thread that does nothing else is on trial when the whole has a plan.
TEST_CASE("trial: a short loop does not go over to a long one that has it in it", "[engine]") {
  testing::drive([&](Engine& engine, Driver& driver, const Lane& lane) {
    driver.iterate({kPiece}, 40);
    REQUIRE(on_trial(lane));
    testing::in_thread([&] {
      Driver second(engine, 1'000'000);
      second.iterate(with_pieces(), 8);
      REQUIRE(engine.lanes.at(1).phase() == Phase::kServing);
      CHECK(engine.lanes.at(1).tracker().state().serving.plan->iteration == 130);
    });
    driver.iterate({kPiece}, 15);
    REQUIRE(lane.phase() == Phase::kServing);
    CHECK(lane.tracker().state().serving.plan->iteration == 1);
    CHECK(engine.lanes.valid());
  });
}

// Each loop comes five times and then is over, and the next is of another length: every trial fails.
TEST_CASE("trial: after five that failed none is made", "[engine]") {
  testing::drive([&](Engine& engine, Driver& driver, const Lane& lane) {
    for (std::uint64_t piece = 0; piece < 12; ++piece) {
      Program program;
      for (std::uint64_t call = 0; call < 8 + piece; ++call) {
        program.push_back({70'000 + 20'000 * piece + 1000 * call, 1});
      }
      program.back().lifetime = 9;
      driver.iterate(program, 5);
    }
    CHECK(lane.counters.diverged.get() >= 2);
    CHECK(lane.tracker().state().confidence.trials_lost() == 5);
    CHECK(engine.lanes.valid());
  });
}

TEST_CASE("trial: what is alive when it begins is given back when it is freed", "[engine]") {
  testing::drive([&](Engine& engine, Driver& driver, const Lane& lane) {
    Program program = keeping(13, 10);
    program.back().size = std::uint64_t{4} << 20;
    driver.iterate(program, 5);
    REQUIRE(lane.phase() == Phase::kServing);
    // The first result lay in the pool.
    CHECK(engine.lanes.shared().pool.held().dirty_bytes() <= std::uint64_t{1} << 20);
  });
}

// The first calls of an iteration, its largest ones, come before the plan is known by them.
TEST_CASE("engine: what is alive when a known plan begins is given back when it is freed",
          "[engine]") {
  testing::drive([&](Engine& engine, Driver& driver, const Lane& lane) {
    Program program = program_of(77, 20);
    program.front() = {.size = std::uint64_t{4} << 20, .lifetime = 20};
    REQUIRE(testing::iterations_until_serving(driver, program, lane) < 12);
    driver.iterate(program, 2);
    const testing::Block kept = driver.take(program.front().size);  // its slab is not lent
    const Pool& pool = engine.lanes.shared().pool;
    const std::uint64_t before = pool.held().dirty_bytes();
    testing::in_thread([&] {
      Driver second(engine, 1'000'000);
      second.iterate(program, 3);
      CHECK(engine.lanes.at(1).phase() == Phase::kServing);
      CHECK(second.wrong == 0);
    });
    CHECK(pool.held().dirty_bytes() <= before + (std::uint64_t{1} << 20));
    driver.release(kept);
    CHECK(engine.lanes.valid());
  });
}

TEST_CASE("engine: what is said of a loop follows what it has shown", "[engine]") {
  testing::drive([](Engine&, Driver& driver, const Lane& lane) {
    const auto is = [&](const StandingWords& words) {
      const StandingWords told = lane.standing();
      return told.evidence == words.evidence && told.verdict == words.verdict &&
             told.next == words.next;
    };
    const Program program = program_of(5);
    driver.iterate(program, 1);
    CHECK(is(words_of(Standing::kNothing)));
    driver.iterate(program, 3);
    CHECK(is(words_of(on_trial(lane) ? Standing::kTried : Standing::kRepeats)));
    CHECK(testing::iterations_until_serving(driver, program, lane) < 200);
    driver.iterate(program, 300);
    CHECK(is(words_of(Standing::kBelieved)));
    for (std::uint64_t i = 1; i < 2000 && lane.counters.diverged.get() == 0; ++i) {
      driver.release(driver.take((1 << 20) + i * kGranule));
    }
    CHECK(is(words_of(Evidence::kMissed)));
    CHECK_FALSE(lane.standing().next.empty());
  });
}

TEST_CASE("engine: what is alive twice as a slab comes is owed for no more than two iterations",
          "[engine]") {
  testing::drive([](Engine& engine, Driver& driver, const Lane& lane) {
    Program program = program_of(40);
    for (testing::ProgramStep& call : program) {
      call.lifetime = 5;
    }
    const auto owed = [&] { return lane.owed(); };
    testing::iterations_until_serving(driver, program, lane);
    driver.iterate(program, 30);
    REQUIRE_FALSE(lane.tracker().state().confidence.on_trial());
    CHECK(owed() == 0);
    for (int times = 0; times < 3; ++times) {
      engine.give_back.all();
      for (std::size_t i = 0; i < program.size() / 2; ++i) {
        driver.step(program[i]);
      }
      CHECK(engine.lanes.shared().slabs.bytes == lane.slab().tallest());
      CHECK(owed() > 0);
      for (std::size_t i = program.size() / 2; i < program.size(); ++i) {
        driver.step(program[i]);
      }
      driver.iterate(program, 2);
      CHECK(owed() == 0);
    }
    // So what the pool gives in each iteration is at hand in the next.
    driver.release(driver.take(333'333));
    const std::uint64_t at_hand = lane.counters.at_hand_bytes.get();
    driver.release(driver.take(333'333));
    CHECK(lane.counters.at_hand_bytes.get() > at_hand);
  });
}

TEST_CASE("trial: a loop that the pool serves is not tried for much memory", "[engine]") {
  const bool large = GENERATE(false, true);
  INFO("a large result " << large);
  testing::drive([&](Engine& engine, Driver& driver, const Lane& lane) {
    Program program = keeping(14, 20);
    program.back().size = tuning::kTrialBytes - (large ? 1U << 20 : 6U << 20);  // two at once
    driver.iterate(program, 8);
    CHECK(on_trial(lane) != large);
    CHECK(lane.counters.plans.get() == (large ? 0 : 1));
    CHECK(engine.lanes.valid());
  });
}

// Blocks of which the pool, which holds no more than was alive at once, has too few as large as needed.
Program ragged(std::uint32_t calls) {
  Program program;
  for (std::uint32_t call = 0; call < calls; ++call) {
    program.push_back({(std::uint64_t{1} << 20) * (1 + 5 * call % 7) + 4096 * call, 1 + call % 3});
  }
  program.push_back({std::uint64_t{9} << 20, calls + 2});
  return program;
}

TEST_CASE("trial: where the pool has to get memory for each copy, a tall slab is taken",
          "[engine]") {
  testing::drive([&](Engine& engine, Driver& driver, const Lane& lane) {
    driver.iterate(ragged(20), 3);
    const Search& search = lane.tracker().state().search;
    REQUIRE(search.calm < 21);
    CHECK(lane.tracker().state().confidence.bytes_to_try(search.got) == search.got);
    driver.iterate(ragged(20), 1);
    CHECK(on_trial(lane));
    CHECK(lane.slab_height() > tuning::kTrialBytes);
    CHECK(engine.lanes.valid());
  });
}

TEST_CASE("trial: lost trials cost no more than the pool has got", "[engine]") {
  Confidence confidence;
  const auto lose = [&](std::uint64_t height) {
    confidence.adopt(true, false, 100);
    CHECK(confidence.lose_trial(20, height, false));
  };
  CHECK(confidence.bytes_to_try(0) == tuning::kTrialBytes);
  lose(tuning::kTrialBytes / 4);
  CHECK(confidence.bytes_to_try(0) == tuning::kTrialBytes / 2);
  CHECK(confidence.bytes_to_try(2 * tuning::kTrialBytes) == 3 * tuning::kTrialBytes / 2);
  lose(tuning::kTrialBytes * 3 / 4);
  CHECK(confidence.bytes_to_try(0) == 0);
}

// It lives for longer than a schedule may span, and is small enough to be left out.
TEST_CASE("trial: a block that the plan leaves out does not end it", "[engine]") {
  testing::drive([&](Engine& engine, Driver& driver, const Lane& lane) {
    Program program = program_of(15, 20);
    for (testing::ProgramStep& step : program) {
      step.size *= 8;
    }
    program.push_back({66'000, 5 * 21});
    driver.iterate(program, 4);
    REQUIRE(on_trial(lane));
    const std::uint64_t before = lane.counters.fallback_unplanned.get();
    driver.iterate(program, 1);
    CHECK(lane.counters.fallback_unplanned.get() == before + 1);
    CHECK(lane.counters.diverged.get() == 0);
    CHECK(lane.phase() == Phase::kServing);
    CHECK(engine.lanes.valid());
  });
}

TEST_CASE("engine: a size that comes again is not given back at once", "[engine]") {
  testing::drive([&](Engine& engine, Driver& driver, const Lane&) {
    constexpr std::uint64_t kBytes = 16ULL << 20;
    driver.iterate({{kBytes, 1}});
    CHECK(engine.lanes.shared().pool.held().dirty_bytes() < kBytes);
    driver.iterate({{kBytes, 1}});
    CHECK(engine.lanes.shared().pool.held().dirty_bytes() >= kBytes);
  });
}

TEST_CASE("engine: the fifth freed block of a dozen MiB is not given back at once", "[engine]") {
  testing::drive([&](Engine& engine, Driver& driver, const Lane&) {
    constexpr std::uint64_t kBytes = 12ULL << 20;
    for (std::uint64_t i = 0; i < 8; ++i) {
      driver.release(driver.take(kBytes + (i << 16)));
      const bool kept = engine.lanes.shared().pool.held().dirty_bytes() >= kBytes;
      CHECK(kept == (i >= tuning::kMaxReturnedAtOnce));
    }
  });
}

}  // namespace
}  // namespace memo
