// The engine across threads and processes: lanes taken and left, plans shared, fork.
#include <sys/resource.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <thread>
#include <vector>

#include "src/base/os.h"
#include "src/base/tuning.h"
#include "src/engine/engine.h"
#include "src/learn/learn.h"
#include "tests/support/engines.h"
#include "tests/support/spaces.h"

namespace memo {
namespace {

using testing::Block;
using testing::Driver;
using testing::in_thread;
using testing::OwnEngine;
using testing::Program;
using testing::program_of;
using testing::Random;

TEST_CASE("threads: a second thread takes the known plan up", "[engine]") {
  OwnEngine own;
  const Program program = program_of(1);
  testing::when_serving(own.engine, program, [&](Driver& first) {
    in_thread([&] {
      Driver second(own.engine);
      second.iterate(program);
      const Lane& lane = own.engine.lanes.at(1);
      CHECK(lane.phase() == Phase::kServing);
      CHECK(lane.counters.plans.get() == 0);
      second.iterate(program, 5);
      CHECK(lane.counters.planned_allocations.get() >= 5 * program.size());
      CHECK(lane.counters.fallback_allocations.get() == 0);
      // Its own, or the first one's, which has rested since.
      const std::uint64_t taken = own.engine.lanes.at(0).slab_height() == 0 ? 1 : 0;
      CHECK(own.engine.lanes.shared().slabs.bytes == (2 - taken) * lane.slab().tallest());
      second.free_due(UINT64_MAX);
      CHECK(second.wrong == 0);
    });
    first.iterate(program, 3);
    CHECK(first.wrong == 0);
  });
}

TEST_CASE("threads: who walks a part of a plan has memory for that part", "[engine]") {
  OwnEngine own;
  Program program = program_of(3, 20);
  program.insert(program.begin() + 10, 16, {70'000, 1});  // what a worker's stream is made of
  program.push_back({std::uint64_t{32} << 20, 1});
  testing::when_serving(own.engine, program, [&](Driver& first) {
    const Block kept = first.take(program[0].size);  // its slab is not lent
    in_thread([&] {
      Driver worker(own.engine);
      worker.iterate({{70'000, 1}}, 100);
      const Lane& lane = own.engine.lanes.at(1);
      REQUIRE(lane.phase() == Phase::kServing);
      const char* slab = lane.slab().space().base();
      CHECK(testing::resident_bytes(slab, lane.slab().tallest()) <= std::uint64_t{4} << 20);
      worker.iterate(program, 2);  // a whole iteration after all
      CHECK(lane.phase() == Phase::kServing);
      worker.free_due(UINT64_MAX);
      CHECK(worker.wrong == 0);
    });
    first.release(kept);
  });
}

TEST_CASE("threads: a lane is used again when its thread has ended", "[engine]") {
  OwnEngine own;
  std::vector<Block> left;
  for (std::uint64_t i = 0; i < 50; ++i) {
    in_thread([&] {
      Driver driver(own.engine, i << 32);
      driver.iterate(program_of(2), i % 10 == 0 ? 8 : 1);
      left.push_back(driver.take(70'000));
      driver.free_due(UINT64_MAX);
      CHECK(driver.wrong == 0);
      own.engine.thread_ended();
      CHECK(own.engine.allocate({65'536, 16, Op::k_malloc, false}) == nullptr);
    });
  }
  CHECK(own.engine.lanes.count() == 1);
  CHECK(own.engine.lanes.at(0).phase() == Phase::kIdle);
  in_thread([&] {
    Driver driver(own.engine);
    for (const Block& block : left) {
      driver.release(block);
    }
    CHECK(driver.wrong == 0);
  });
  CHECK(own.engine.lanes.shared().pool.held().live_bytes() == 0);
}

// A limit on addresses, of which there are so many, leaves few lanes.
TEST_CASE("threads: more threads than lanes share the last one, and the pool", "[engine]") {
#if !defined(MEMO_ASAN) && !defined(MEMO_TSAN)  // sanitizers need more addresses
  const int status = testing::status_of_child([] {
    const rlimit limit{std::uint64_t{16} << 30, std::uint64_t{16} << 30};
    if (setrlimit(RLIMIT_AS, &limit) != 0) {
      return 1;
    }
    OwnEngine own;
    const Program program = program_of(1);
    std::atomic<std::uint32_t> arrived{0};
    std::atomic<std::uint64_t> wrong{0};
    std::atomic<std::uint64_t> passed_on{0};
    constexpr std::uint32_t kThreads = 6;
    std::vector<std::thread> threads;
    for (std::uint32_t i = 0; i < kThreads; ++i) {
      threads.emplace_back([&, i] {
        Driver driver(own.engine, std::uint64_t{i} << 40);
        driver.iterate(program, 10);
        ++arrived;
        while (arrived < kThreads) {
          std::this_thread::yield();
        }
        driver.iterate(program, 3);
        driver.free_due(UINT64_MAX);
        wrong += driver.wrong;
        passed_on += driver.passed_on;
        own.engine.thread_ended();
      });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
    const Lanes& lanes = own.engine.lanes;
    std::uint64_t calls = 0;
    for (std::uint32_t i = 0; i < lanes.count(); ++i) {
      calls += lanes.at(i).counters.large_allocations.get();
    }
    if (lanes.possible() != tuning::kSlabsPerProcessor + 1 || lanes.count() != lanes.possible()) {
      return 2;
    }
    const Lane& common = lanes.at(lanes.count() - 1);
    const bool pooled = common.counters.pooled_allocations.get() != 0 &&
                        common.counters.planned_allocations.get() == 0;
    // When others have ended there are lanes again.
    int again = 5;
    std::thread([&] {
      Driver driver(own.engine, 1ULL << 60);
      driver.iterate(program, 3);
      again = t_state.lane != nullptr && t_state.lane != &common ? 0 : 4;
      driver.free_due(UINT64_MAX);
      own.engine.thread_ended();
    }).join();
    const bool whole = wrong == 0 && passed_on == 0 && calls == kThreads * 13 * program.size() &&
                       lanes.shared().pool.held().live_bytes() == 0 && lanes.valid();
    return pooled && whole ? again : 3;
  });
  CHECK(status == 0);
#endif
}

TEST_CASE("threads: blocks are freed by others while their owner is served", "[engine]") {
  OwnEngine own;
  const Program program = program_of(3);
  std::vector<std::atomic<Block*>> boxes(16);
  std::atomic<bool> done{false};
  std::atomic<std::uint64_t> wrong{0};
  std::thread other([&] {
    Driver driver(own.engine, 1ULL << 40);
    Random random(3);
    while (!done) {
      driver.iterate({{65'536, 1}});
      if (Block* block = boxes[testing::below(random, boxes.size())].exchange(nullptr)) {
        driver.release(*block);
        delete block;
      }
    }
    driver.free_due(UINT64_MAX);
    wrong += driver.wrong;
    own.engine.thread_ended();
  });
  in_thread([&] {
    Driver driver(own.engine);
    Random random(4);
    for (int i = 0; i < 60; ++i) {
      for (const testing::ProgramStep& step : program) {
        if (testing::below(random, 8) != 0) {
          driver.step(step);
          continue;
        }
        auto* block = new Block(driver.take(step.size));
        Block* old = boxes[testing::below(random, boxes.size())].exchange(block);
        if (old != nullptr) {
          driver.release(*old);
          delete old;
        }
      }
      if (i % 20 == 19) {
        own.engine.give_back.all();
      }
    }
    done = true;
    other.join();
    for (auto& box : boxes) {
      if (Block* block = box.exchange(nullptr)) {
        driver.release(*block);
        delete block;
      }
    }
    driver.free_due(UINT64_MAX);
    wrong += driver.wrong;
    std::uint64_t served = 0;
    for (std::uint32_t i = 0; i < own.engine.lanes.count(); ++i) {
      served += own.engine.lanes.at(i).counters.planned_allocations.get();
    }
    CHECK(served > 0);
    CHECK(own.engine.lanes.shared().pool.held().live_bytes() == 0);
  });
  CHECK(wrong == 0);
}

// What the child finds and does; its exit code.
int live_on_in_child(Engine& engine, Driver& driver, const Block& parents, const Block& others,
                     const Program& program) {
  engine.forks.after_in_child();
  if (engine.forks.here() || !engine.forks.forked() || !engine.forks.notice() ||
      !engine.forks.here()) {
    return 6;
  }
  if (!parents.whole() || !others.whole()) {
    return 1;
  }
  if (engine.lanes.at(0).counters.large_allocations.get() != 0 ||
      engine.lanes.shared().slabs.bytes != engine.lanes.at(1).slab().tallest()) {
    return 2;
  }
  driver.release(parents);
  driver.release(others);
  driver.free_due(UINT64_MAX);
  testing::iterations_until_serving(driver, program, engine.lanes.at(0));
  driver.iterate(program, 3);
  driver.free_due(UINT64_MAX);
  if (engine.lanes.at(0).phase() != Phase::kServing) {
    return 3;
  }
  int in_new_thread = 0;
  std::thread([&] {
    Driver fresh(engine, 1ULL << 50);
    fresh.iterate(program, 3);
    fresh.free_due(UINT64_MAX);
    // In the lane of the thread that does not exist here.
    in_new_thread = fresh.wrong == 0 && engine.lanes.count() == 2 ? 0 : 4;
  }).join();
  return driver.wrong == 0 ? in_new_thread : 5;
}

TEST_CASE("threads: a forked child lives on by itself, and its parent too", "[engine]") {
  const bool serving = GENERATE(false, true);
  INFO("serving " << serving);
  OwnEngine own;
  const Program program = program_of(5);
  in_thread([&] {
    Driver driver(own.engine);
    driver.iterate(program, serving ? 10 : 1);
    REQUIRE((own.engine.lanes.at(0).phase() == Phase::kServing) == serving);
    std::atomic<int> stage{0};
    Block others;
    std::thread other([&] {  // its lane has no thread in the child
      Driver second(own.engine, 1ULL << 40);
      second.iterate(program, 3);
      others = second.take(90'000);
      stage = 1;
      while (stage == 1) {
        std::this_thread::yield();
      }
      second.iterate(program, 3);
      second.release(others);
      CHECK(second.wrong == 0);
    });
    while (stage == 0) {
      std::this_thread::yield();
    }
    driver.step(program[0]);
    const Block mine = driver.take(program[1].size);
    own.engine.before_fork();
    const int status = testing::status_of_child(
        [&] { return live_on_in_child(own.engine, driver, mine, others, program); });
    own.engine.forks.after_in_parent();
    CHECK(status == 0);
    stage = 2;
    other.join();
    CHECK(mine.whole());
    driver.release(mine);
    for (std::size_t i = 2; i < program.size(); ++i) {
      driver.step(program[i]);
    }
    driver.iterate(program, 3);
    driver.free_due(UINT64_MAX);
    CHECK(driver.wrong == 0);
  });
}

TEST_CASE("threads: a thread follows what others have learned from its third call on", "[engine]") {
  OwnEngine own;
  const Program program = program_of(1);
  testing::when_serving(own.engine, program, [&](Driver&) {
    in_thread([&] {
      Driver second(own.engine, 1ULL << 40);
      second.iterate(program);
      const Counters& counters = own.engine.lanes.at(1).counters;
      CHECK(counters.planned_allocations.get() == program.size() - 2);
      second.free_due(UINT64_MAX);
      CHECK(second.wrong == 0);
    });
  });
}

// Calls of the plan's first iteration that are not served, where a thread makes so many others
// before it.
std::uint64_t unserved_after(std::uint32_t others) {
  OwnEngine own;
  const Program program = program_of(1);
  std::uint64_t unserved = 0;
  in_thread([&] {
    Driver first(own.engine);
    first.iterate(program, 10);
    REQUIRE(own.engine.lanes.at(0).phase() == Phase::kServing);
    in_thread([&] {
      Driver second(own.engine, 1ULL << 40);
      for (std::uint64_t i = 0; i < others; ++i) {
        second.step({300'000 + 4096 * (i * i % 997), 1});
      }
      second.iterate(program);
      unserved = program.size() - own.engine.lanes.at(1).counters.planned_allocations.get();
      second.free_due(UINT64_MAX);
    });
  });
  return unserved;
}

TEST_CASE("threads: a plan is believed early in the first dozens of calls, not after a hundred",
          "[engine]") {
  CHECK(unserved_after(45) <= 3);
  CHECK(unserved_after(100) >= 5);
}

// A loop of 24 calls whose sizes follow from the tokens: three layers of eight.
std::uint64_t shaped(std::uint64_t call, std::uint64_t tokens) {
  return call % 8 == 5 ? 96 * tokens * tokens : (call % 3 + 1) * 4096 * tokens;
}
std::uint32_t shaped_life(std::uint32_t call) {
  return std::min<std::uint32_t>(1 + call % 5, 24 - call);
}

// The plan of that loop, as call stacks would have told it.
Plan shaped_plan(const RecursionGuard& guard) {
  Random random(19);
  std::vector<Allocation> stream;
  for (int i = 0; i < 20; ++i) {
    const std::uint64_t tokens = 20 + testing::below(random, 100);
    for (std::uint32_t call = 0; call < 24; ++call) {
      Allocation allocation;
      allocation.size = shaped(call, tokens);
      allocation.site = 1000 + call;
      allocation.death = static_cast<std::uint32_t>(stream.size()) + shaped_life(call);
      allocation.alignment_log2 = 6;
      stream.push_back(allocation);
    }
  }
  return learn_symbolic(guard, stream, {.plan_milliseconds = 1000, .least_bytes = 65'536});
}

TEST_CASE("threads: one plan is laid out in a shape of each thread's own", "[engine]") {
  OwnEngine own;
  in_thread([&] {
    Driver driver(own.engine);
    driver.iterate({{65'536, 1}});
    const RecursionGuard guard;
    Plan plan = shaped_plan(guard);
    REQUIRE(plan);
    const std::uint32_t count = plan->count;
    own.engine.plans.add(guard, std::move(plan), count);
    own.engine.thread_ended();
  });
  std::atomic<std::uint64_t> wrong{0};
  std::vector<std::thread> threads;
  for (std::uint64_t i = 0; i < 3; ++i) {
    threads.emplace_back([&, i] {
      Driver driver(own.engine, i << 40);
      Random random(static_cast<std::uint32_t>(20 + i));
      for (int iteration = 0; iteration < 120; ++iteration) {
        const std::uint64_t tokens = 20 + testing::below(random, 100);
        for (std::uint32_t call = 0; call < 24; ++call) {
          driver.step({shaped(call, tokens), shaped_life(call)});
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
  std::uint64_t shapes = 0;
  for (std::uint32_t lane = 0; lane < own.engine.lanes.count(); ++lane) {
    shapes += own.engine.lanes.at(lane).counters.shapes.get();
  }
  CHECK(shapes > 200);
}

}  // namespace
}  // namespace memo
