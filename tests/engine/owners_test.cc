// Lanes and the threads that own them: refused, had later, left in the middle of a call.
#include <atomic>
#include <catch2/catch.hpp>
#include <thread>
#include <utility>
#include <vector>

#include "src/base/os.h"
#include "src/base/tuning.h"
#include "src/engine/engine.h"
#include "src/trace/signature.h"
#include "tests/support/engines.h"

namespace memo {
namespace {

using testing::Block;
using testing::Driver;
using testing::in_thread;
using testing::OwnEngine;
using testing::Program;
using testing::program_of;

const Nanos kSomeTurns = tuning::kLease + tuning::kLease;

// Threads that take all lanes: each learns the program, or makes one call, and then only lives.
class Crowd {
 public:
  explicit Crowd(Engine& engine, Program program = {{65'536, 1}})
      : engine_(engine), program_(std::move(program)) {
    for (std::uint32_t i = 0; i == 0 || i < engine.lanes.possible(); ++i) {
      threads_.emplace_back([this, i] { live(std::uint64_t{i} << 32); });
      while (arrived_ <= i) {
        os::rest();
      }
    }
  }
  ~Crowd() { disperse(); }
  Crowd(const Crowd&) = delete;
  Crowd& operator=(const Crowd&) = delete;

  // Once more through the program, each thread, and then they end.
  void disperse() {
    over_ = true;
    for (std::thread& thread : threads_) {
      thread.join();
    }
    threads_.clear();
  }
  // Blocks that were not what they must be.
  [[nodiscard]] std::uint64_t wrong() const { return wrong_; }

 private:
  void live(std::uint64_t first_id) {
    Driver driver(engine_, first_id);
    driver.iterate(program_);
    ++arrived_;
    while (!over_) {
      os::rest();
    }
    driver.iterate(program_);
    driver.free_due(UINT64_MAX);
    wrong_ += driver.wrong;
    engine_.thread_ended();
  }

  Engine& engine_;
  Program program_;
  std::atomic<std::uint32_t> arrived_{0};
  std::atomic<std::uint64_t> wrong_{0};
  std::atomic<bool> over_{false};
  std::vector<std::thread> threads_;
};

Options with_trace() {
  Options options;
  options.TRACE_FILE = "trace.csv";
  return options;
}

std::uint64_t large_calls(const Engine& engine) {
  std::uint64_t sum = engine.lanes.passed_on.large_allocations.get();
  for (std::uint32_t i = 0; i < engine.lanes.count(); ++i) {
    sum += engine.lanes.at(i).counters.large_allocations.get();
  }
  return sum;
}

TEST_CASE("threads: who was refused a lane has one when others have ended", "[engine]") {
  OwnEngine own(with_trace());  // for which no lane is taken over
  Crowd crowd(own.engine);
  testing::rest_for(tuning::kLearningLease + kSomeTurns);
  in_thread([&] {
    Driver driver(own.engine, 1ULL << 60);
    const Nanos before = os::coarse_nanoseconds();
    const Block foreign = driver.take(65'536);
    CHECK_FALSE(foreign.owned);
    CHECK(t_state.ask_at > before + Nanos{1'000'000});
    CHECK(t_state.ask_at < os::coarse_nanoseconds() + Nanos{8'000'000});
    driver.release(foreign);
    crowd.disperse();
    testing::rest_for(3 * tuning::kAskForLane);
    driver.iterate(program_of(1), 12);
    driver.free_due(UINT64_MAX);
    CHECK(driver.passed_on == 1);
    CHECK(own.engine.lanes.count() == own.engine.lanes.possible());
    CHECK(own.engine.lanes.at(0).phase() == Phase::kServing);
    CHECK(driver.wrong == 0);
    own.engine.thread_ended();
  });
}

TEST_CASE("threads: a lane is taken over after some turns without a call", "[engine]") {
  OwnEngine own;
  testing::drive(own, [&](Engine&, Driver& driver, Lane& lane) {
    driver.iterate(program_of(1), 12);
    driver.free_due(UINT64_MAX);
    REQUIRE(lane.phase() == Phase::kServing);
    const Nanos now = os::coarse_nanoseconds();
    lane.watch(now);
    CHECK_FALSE(lane.may_be_taken(now + Nanos{4'000'000}));
    CHECK(lane.may_be_taken(now + Nanos{8'000'000}));
    driver.iterate(program_of(1));
    lane.watch(now + Nanos{8'000'000});
    CHECK_FALSE(lane.may_be_taken(now + Nanos{12'000'000}));
    CHECK(lane.may_be_taken(now + Nanos{16'000'000}));
  });
}

TEST_CASE("threads: a lane at learning is taken over later than others, and after them",
          "[engine]") {
  OwnEngine own;
  testing::drive(own, [&](Engine& engine, Driver& driver, Lane& serving) {
    driver.iterate(program_of(1), 12);
    in_thread([&] {
      Driver second(engine, 1ULL << 40);
      second.take(70'000);
      Lane& learning = engine.lanes.at(1);
      REQUIRE(learning.phase() == Phase::kLearning);
      const Nanos now = os::coarse_nanoseconds();
      learning.watch(now);
      serving.watch(now + Nanos{1'000'000});
      CHECK(serving.loses_less_than(learning));
      CHECK_FALSE(learning.loses_less_than(serving));
      CHECK_FALSE(learning.may_be_taken(now + Nanos{700'000'000}));
      CHECK(learning.may_be_taken(now + Nanos{1'500'000'000}));
    });
  });
}

TEST_CASE("threads: who has no lane takes over that of a thread at rest", "[engine]") {
  OwnEngine own;
  const Program program = program_of(1);
  std::uint64_t calls = 0;
  in_thread([&] {  // others find its plan
    Driver first(own.engine, 1ULL << 61);
    first.iterate(program, 12);
    first.free_due(UINT64_MAX);
    calls += 12 * program.size();
    own.engine.thread_ended();
  });
  Crowd crowd(own.engine, program);
  testing::rest_for(kSomeTurns);
  constexpr int kLate = 5;
  for (std::uint64_t i = 0; i < kLate; ++i) {
    in_thread([&] {
      Driver driver(own.engine, (1ULL << 60) + (i << 32));
      driver.iterate(program);
      driver.passed_on = 0;
      testing::rest_for(3 * tuning::kAskForLane);
      driver.iterate(program, 3);
      CHECK(driver.passed_on == 0);
      CHECK(my_lane() != nullptr);
      CHECK(my_lane()->phase() == Phase::kServing);
      driver.free_due(UINT64_MAX);
      CHECK(driver.wrong == 0);
      own.engine.thread_ended();
    });
  }
  CHECK(own.engine.lanes.count() == own.engine.lanes.possible());
  crowd.disperse();  // some of them have had theirs taken
  CHECK(crowd.wrong() == 0);
  calls += (2 * own.engine.lanes.possible() + 4 * kLate) * program.size();
  CHECK(large_calls(own.engine) == calls);
  CHECK(own.engine.lanes.valid());
  CHECK(own.engine.lanes.shared().pool.held().live_bytes() == 0);
}

TEST_CASE("threads: who comes back to a lane that was taken over finds another", "[engine]") {
  OwnEngine own;
  testing::drive(own, [&](Engine& engine, Driver& driver, Lane& lane) {
    const Program program = program_of(1);
    driver.iterate(program, 12);
    const Block kept = driver.take(program[0].size);
    const Nanos later = os::coarse_nanoseconds() + kSomeTurns;
    lane.watch(later);
    std::atomic<int> stage{0};
    std::thread taker([&] {
      Driver second(engine, 1ULL << 40);
      CHECK(lane.take_over(later + kSomeTurns));
      t_state.lane = &lane;
      lane.follow_thread(find_stack_bounds());
      second.iterate(program, 3);
      CHECK(lane.phase() == Phase::kServing);
      stage = 1;
      while (stage == 1) {
        os::rest();
      }
      second.iterate(program, 3);
      CHECK(my_lane() == &lane);
      CHECK(second.passed_on == 0);
      second.free_due(UINT64_MAX);
      CHECK(second.wrong == 0);
      engine.thread_ended();
    });
    while (stage == 0) {
      os::rest();
    }
    CHECK(my_lane() == nullptr);
    engine.iteration();  // of no lane
    engine.note_foreign_growth(1 << 20);
    CHECK(engine.lanes.passed_on.fallback_realloc.get() == 1);
    SECTION("and goes on there") {
      driver.release(kept);
      driver.iterate(program, 3);
      CHECK(driver.passed_on == 0);
      REQUIRE(my_lane() == &engine.lanes.at(1));
      CHECK(engine.lanes.at(1).phase() == Phase::kServing);
    }
    SECTION("or ends, and leaves the lane to its owner") {
      engine.thread_ended();
      CHECK(lane.phase() == Phase::kServing);
      driver.release(kept);
    }
    SECTION("or forks, and lives on in a child") {
      engine.before_fork();
      const int status = testing::status_of_child([&] {
        engine.forks.after_in_child();
        driver.release(kept);
        driver.iterate(program, 12);
        driver.free_due(UINT64_MAX);
        // In its former lane, whose taker does not exist.
        return driver.wrong == 0 && driver.passed_on == 0 && my_lane() == &lane &&
                       lane.phase() == Phase::kServing
                   ? 0
                   : 1;
      });
      engine.forks.after_in_parent();
      CHECK(status == 0);
      driver.release(kept);
    }
    stage = 2;
    taker.join();
  });
}

TEST_CASE("threads: a lane in the middle of a call is not taken over", "[engine]") {
  OwnEngine own;
  testing::drive(own, [&](Engine&, Driver& driver, Lane& lane) {
    driver.iterate(program_of(1), 12);
    const Nanos later = os::coarse_nanoseconds() + kSomeTurns;
    lane.watch(later);
    bool taken = true;
    lane.with_slab([&](Slab&) { taken = lane.take_over(later + kSomeTurns); });
    CHECK_FALSE(taken);
    lane.watch(later);
    driver.take(70'000);  // since it was looked at
    CHECK_FALSE(lane.take_over(later + kSomeTurns + kSomeTurns));
    CHECK(lane.mine());
  });
}

// Stands for a handler that ends its thread in the middle of a call.
Engine* ending = nullptr;
void end_thread() {
  if (ending != nullptr) {
    ending->thread_ended();
    ending = nullptr;
  }
}

TEST_CASE("threads: a call in whose middle its thread ends leaves the lane to the next",
          "[engine]") {
  OwnEngine own({}, {.trim_next = end_thread});
  const Program program = testing::untried_program();
  in_thread([&] {
    ending = &own.engine;
    Driver driver(own.engine);
    driver.iterate(program, 12);  // the slab is taken, and the thread ended
    driver.free_due(UINT64_MAX);
    CHECK(ending == nullptr);
    CHECK(driver.wrong == 0);
  });
  in_thread([&] {
    Driver driver(own.engine, 1ULL << 40);
    testing::iterations_until_serving(driver, program, own.engine.lanes.at(0));
    driver.iterate(program, 3);
    driver.free_due(UINT64_MAX);
    CHECK(own.engine.lanes.count() == 1);
    CHECK(own.engine.lanes.at(0).phase() == Phase::kServing);
    CHECK(driver.wrong == 0);
    own.engine.thread_ended();
  });
}

}  // namespace
}  // namespace memo
