// The engine's memory as a plain object: limits, giving back, pooling, a full recorder.
#include <catch2/catch.hpp>

#include "src/base/os.h"
#include "src/engine/engine.h"
#include "src/engine/lane_memory.h"
#include "tests/support/engines.h"
#include "tests/support/schedules.h"
#include "tests/support/spaces.h"

namespace memo {
namespace {

using testing::Block;
using testing::drive;
using testing::Driver;
using testing::OwnEngine;
using testing::Program;
using testing::program_of;
using testing::Random;

TEST_CASE("engine: no slab beyond the limit, and all goes on without", "[engine]") {
  Options options;
  options.SLAB_LIMIT = 65'536;
  OwnEngine own(options);
  drive(own, [](Engine& engine, Driver& driver, const Lane& lane) {
    const Program program = program_of(11);
    driver.iterate(program, 20);
    CHECK(engine.lanes.shared().slabs.bytes == 0);
    CHECK(lane.slab().tallest() == 0);
    const std::uint64_t served = lane.counters.at_hand_allocations.get();
    driver.iterate(program, 100);
    CHECK(engine.lanes.shared().slabs.bytes == 0);
    // The pool keeps its memory, however often the slab is refused.
    CHECK(lane.counters.at_hand_allocations.get() - served > 50 * program.size());
  });
}

TEST_CASE("engine: gives the slab back on request, and serves again", "[engine]") {
  drive([](Engine& engine, Driver& driver, const Lane& lane) {
    const Program program = program_of(12);
    testing::iterations_until_serving(driver, program, lane);
    driver.iterate(program);
    const Block kept = driver.take(program[0].size);
    engine.give_back.all();
    CHECK(engine.lanes.shared().slabs.bytes == 0);
    CHECK(lane.counters.released.get() == 1);
    CHECK(kept.whole());
    for (std::size_t i = 1; i < program.size(); ++i) {
      driver.step(program[i]);
    }
    CHECK(engine.lanes.shared().slabs.bytes == lane.slab().tallest());
    driver.release(kept);
    const std::uint64_t served = lane.counters.planned_allocations.get();
    driver.iterate(program, 3);
    CHECK(lane.counters.planned_allocations.get() == served + 3 * program.size());
    CHECK(lane.counters.plans.get() == 1);
  });
}

std::uint32_t trims = 0;  // of the underlying allocator

TEST_CASE("engine: the underlying allocator is trimmed for a new slab, not for one that comes back",
          "[engine]") {
  OwnEngine own({}, {.trim_next = [] { ++trims; }});
  trims = 0;
  drive(own, [](Engine& engine, Driver& driver, const Lane& lane) {
    const Program program = testing::untried_program();
    testing::iterations_until_serving(driver, program, lane);
    driver.iterate(program);
    CHECK(trims == 1);
    engine.give_back.all();
    driver.iterate(program, 3);
    CHECK(engine.lanes.shared().slabs.bytes == lane.slab().tallest());
    CHECK(trims == 1);
  });
}

// A second plan of every other size of the first: its calls match the first as well, by steps that
// are skipped, so that a place in the slab is claimed for the call at which the lane goes over.
TEST_CASE("engine: a place that was claimed is served where the plan is lost in the same call",
          "[engine]") {
  Program first(40);
  for (std::size_t i = 0; i < first.size(); ++i) {
    first[i].size = 65'536 + 4096 * (i * 7 % 40);
  }
  Program second;
  for (std::size_t i = 0; i < first.size(); i += 2) {
    second.push_back(first[i]);
  }
  Options options;
  options.SLAB_LIMIT = 4 << 20;
  OwnEngine own(options);
  drive(own, [&](Engine& engine, Driver& driver, const Lane& lane) {
    REQUIRE(testing::iterations_until_serving(driver, first, lane) < 12);
    driver.iterate(first, 4);  // and is believed
    {
      Random random(18);
      const RecursionGuard guard;
      engine.plans.add(guard,
                       testing::hostile(random, testing::sizes_of(second), 2 * options.SLAB_LIMIT),
                       static_cast<std::uint32_t>(second.size()));
    }
    const PageMap& pages = lane.slab().space().pages;
    const Granules granules = granules_in(lane.slab().tallest());
    driver.release(driver.take(333'333));  // from here on the other plan is followed, too
    std::size_t calls = 0;
    while (lane.phase() == Phase::kServing && calls < second.size()) {
      const std::uint64_t before = lane.counters.planned_allocations.get();
      driver.release(driver.take(second[calls++].size));
      CHECK(lane.counters.planned_allocations.get() == before + 1);
    }
    REQUIRE(lane.phase() == Phase::kPooling);
    CHECK(pages.next_free(Granules{0}, granules).count == granules);
  });
}

// The engine whose first lane is just being taken.
Engine* opening = nullptr;
std::uint32_t times_kept = 0;

constexpr std::uint64_t kTall = 512ULL << 20;  // bytes of the saved plan's slab

// Sixteen small blocks, and then one as large as the slab.
Program tall_program() {
  Program program = program_of(16, 16);
  program.push_back({kTall - 4096, 1});
  return program;
}

void load_tall_plan(const RecursionGuard& guard) {
  const Program program = tall_program();
  std::vector<Step> steps;
  for (std::size_t i = 0; i < program.size(); ++i) {
    steps.push_back({.size = program[i].size, .offset = i % 16 * 256 * kGranule});
  }
  const auto count = static_cast<std::uint32_t>(steps.size());
  opening->plans.add(guard,
                     Plan::copy_of({.steps = steps.data(),
                                    .count = count,
                                    .height = kTall,
                                    .lower_bound = kTall,
                                    .lowest = true}),
                     count);
  opening->give_back.tick(100 * os::kSecond);
}

// With a loop of its own behind it the lane has gone through a whole plan, which says nothing of
// the saved one.
TEST_CASE("engine: a saved plan has no memory before calls have matched it, and then for those",
          "[engine]") {
  const bool other_loop = GENERATE(false, true);
  CAPTURE(other_loop);
  Options options;
  options.SLAB_LIMIT = 2 * kTall;
  OwnEngine own(options, {.opened = load_tall_plan,
                          .start_background_thread = [](const RecursionGuard&) { ++times_kept; }});
  opening = &own.engine;
  times_kept = 0;
  drive(own, [&](Engine& engine, Driver& driver, const Lane& lane) {
    const char* slab = lane.slab().space().base();
    CHECK(times_kept == 0);
    CHECK(engine.lanes.shared().slabs.bytes == 0);
    CHECK(lane.slab().tallest() == 0);
    if (other_loop) {
      REQUIRE(testing::iterations_until_serving(driver, program_of(17, 40), lane) < 12);
      driver.iterate(program_of(17, 40), 3);
      CHECK(lane.slab().tallest() < kTall);
    }
    const Program program = tall_program();
    for (std::size_t i = 0; i < 12; ++i) {
      driver.step({program[i].size, 1});
    }
    CHECK(lane.phase() == Phase::kServing);
    CHECK(lane.slab().tallest() == kTall);
    engine.give_back.tick(101 * os::kSecond);
    // 12 blocks of up to 200 KB, and the other loop's slab.
    CHECK(testing::resident_bytes(slab, kTall) <= 32ULL << 20);
    for (std::size_t i = 0; i < 100; ++i) {
      driver.step({65'536 + 4096 * i, 1});
    }
    CHECK(testing::resident_bytes(slab, kTall) <= 32ULL << 20);
  });
}

TEST_CASE("engine: gives the slab back when the loop is left", "[engine]") {
  drive([](Engine& engine, Driver& driver, const Lane& lane) {
    const Program program = program_of(13);
    testing::iterations_until_serving(driver, program, lane);
    for (std::uint64_t now = 1; now < 10; ++now) {
      driver.iterate(program);
      engine.give_back.tick(now * os::kSecond);
      REQUIRE(engine.lanes.shared().slabs.bytes == lane.slab().tallest());
    }
    for (std::uint64_t now = 10; now < 20; ++now) {
      engine.give_back.tick(now * os::kSecond);
    }
    CHECK(engine.lanes.shared().slabs.bytes == 0);
    CHECK(lane.counters.released.get() == 1);
    const std::uint64_t served = lane.counters.planned_allocations.get();
    driver.iterate(program, 2);
    CHECK(lane.counters.planned_allocations.get() == served + 2 * program.size());
  });
}

TEST_CASE("engine: pools an unordered stream, and still finds a period in it", "[engine]") {
  drive([](Engine&, Driver& driver, const Lane& lane) {
    Random random(14);
    for (int i = 0; i < 40; ++i) {  // the peak
      driver.keep(driver.take(200'000), 40);
    }
    for (int i = 0; i < 4000; ++i) {
      driver.step({65'536 + testing::below(random, 100'000),
                   1 + static_cast<std::uint32_t>(testing::below(random, 8))});
    }
    CHECK(lane.phase() == Phase::kPooling);
    CHECK(lane.counters.at_hand_allocations.get() > 0);
    const Program program = program_of(15);
    CHECK(testing::iterations_until_serving(driver, program, lane) <= 8);
  });
}

TEST_CASE("engine: what a program does before its loop is no part of the search", "[engine]") {
  drive([](Engine& engine, Driver& driver, const Lane& lane) {
    Random random(18);
    const auto disorder = [&](int calls) {
      for (int i = 0; i < calls; ++i) {
        driver.step({65'536 + testing::below(random, 100'000),
                     1 + static_cast<std::uint32_t>(testing::below(random, 8))});
      }
    };
    disorder(1500);
    CHECK(lane.phase() == Phase::kPooling);
    for (int i = 0; i < 40; ++i) {  // weights
      driver.keep(driver.take(1'000'000), UINT32_MAX);
    }
    CHECK(lane.phase() == Phase::kLearning);
    disorder(1500);  // more than 2048 calls, but not of the loop
    CHECK(lane.phase() == Phase::kPooling);
    const Pool& pool = engine.lanes.shared().pool;
    // The last of the huge pages may hold less than it has room for.
    CHECK(testing::resident_bytes(pool.spaces().front().base(), 2 * pool.held().peak_bytes()) <=
          pool.held().peak_bytes() + os::kHugePage);
  });
}

TEST_CASE("engine: what the pool has at hand is served, whatever the plan says", "[engine]") {
  drive([](Engine&, Driver& driver, const Lane& lane) {
    const Program program = program_of(19, 60);
    testing::iterations_until_serving(driver, program, lane);
    REQUIRE(lane.phase() == Phase::kServing);
    driver.iterate(program, 2);
    const auto extra = [&](std::uint64_t times) {
      for (std::uint64_t i = 0; i < times; ++i) {
        driver.iterate({{4'000'000, 1}});
        driver.iterate(program);
      }
    };
    extra(2);  // the pool has no such memory yet
    const std::uint64_t large = lane.counters.large_bytes.get();
    const auto served_bytes = [&] {
      return lane.counters.planned_bytes.get() + lane.counters.at_hand_bytes.get();
    };
    const std::uint64_t served = served_bytes();
    const std::uint64_t missed = lane.counters.fallback_size.get();
    extra(5);
    CHECK(lane.phase() == Phase::kServing);
    CHECK(lane.counters.fallback_size.get() >= missed + 5);
    CHECK(served_bytes() - served == lane.counters.large_bytes.get() - large);
  });
}

TEST_CASE("engine: each call is planned, at hand or other", "[engine]") {
  drive([](Engine& engine, Driver& driver, const Lane& lane) {
    const Counters& counters = lane.counters;
    const auto sums = [&] {
      return counters.planned_allocations.get() + counters.at_hand_allocations.get() +
                     counters.other_allocations.get() ==
                 counters.large_allocations.get() &&
             counters.planned_bytes.get() + counters.at_hand_bytes.get() +
                     counters.other_bytes.get() ==
                 counters.large_bytes.get();
    };
    const Program program = program_of(19, 60);
    CHECK(counters.planned_allocations.get() == 0);
    CHECK(counters.fallback_learning.get() > 0);
    CHECK(lane.served().large_bytes == 0);
    testing::iterations_until_serving(driver, program, lane);
    REQUIRE(lane.phase() == Phase::kServing);
    driver.iterate(program, 2);
    CHECK(sums());
    const std::uint64_t planned = counters.planned_allocations.get();
    const std::uint64_t other = counters.other_allocations.get();
    driver.iterate(program, 3);
    CHECK(counters.planned_allocations.get() == planned + 3 * program.size());
    driver.iterate({{4'000'000, 1}});  // the pool has no such memory yet
    CHECK(counters.other_allocations.get() == other + 1);
    driver.iterate(program);
    driver.iterate({{4'000'000, 1}});
    driver.iterate(program);
    const std::uint64_t at_hand = counters.at_hand_allocations.get();
    driver.iterate({{4'000'000, 1}});
    CHECK(counters.at_hand_allocations.get() == at_hand + 1);
    const std::uint64_t before = counters.other_allocations.get();
    engine.note_foreign_growth(1'000'000);
    CHECK(counters.other_allocations.get() == before + 1);
    CHECK(sums());
    CHECK(lane.served().planned_bytes + lane.served().at_hand_bytes + counters.other_bytes.get() <=
          counters.large_bytes.get());
    CHECK(counters.planned_allocations.get() >= 5 * program.size());
    CHECK(engine.lanes.passed_on.large_allocations.get() == 0);
  });
}

TEST_CASE("engine: a recorder that is full begins anew, and says so", "[engine]") {
  drive([](Engine& engine, Driver& driver, const Lane& lane) {
    Random random(16);
    for (int i = 0; i < 70'000; ++i) {
      void* block =
          engine.allocate({65'536 + testing::below(random, 100'000), 16, Op::k_malloc, false});
      REQUIRE(block != nullptr);
      REQUIRE(engine.free(block));
    }
    CHECK(lane.counters.recorder_full.get() == 1);
    CHECK(lane.counters.plans.get() == 0);
    const Program program = program_of(17);
    CHECK(testing::iterations_until_serving(driver, program, lane) <= 8);
  });
}

// Blocks that are all alive at the end of an iteration.
Program wide_program(std::uint32_t count, std::uint64_t size) {
  Program program;
  for (std::uint32_t i = 0; i < count; ++i) {
    program.push_back({size + i % 7 * 8192, count - i});
  }
  return program;
}

// Sizes that no plan has, some MiB more than a slab for wide_program(64, 500'000) together.
Program interlude(Random& random) {
  Program program = wide_program(64, 600'000);
  for (auto& step : program) {
    step.size += testing::below(random, 100) * 4096;
  }
  return program;
}

std::uint64_t resident_of(const Slab& slab) {
  return testing::resident_bytes(slab.at(0), slab.height());
}

TEST_CASE("engine: the pool gives way to a loop that comes back after an interlude", "[engine]") {
  drive([](Engine& engine, Driver& driver, const Lane& lane) {
    const Program program = wide_program(64, 500'000);
    REQUIRE(testing::iterations_until_serving(driver, program, lane) < 12);
    driver.iterate(program, 5);
    const HeldMemory& held = engine.lanes.shared().pool.held();
    const std::uint64_t height = lane.slab().height();
    Random random(20);
    driver.iterate(interlude(random));
    CHECK(held.dirty_bytes() > height / 2);
    driver.iterate(program);
    REQUIRE(lane.phase() == Phase::kServing);
    CHECK(resident_of(lane.slab()) > height / 8 * 7);
    CHECK(held.dirty_bytes() <= height / 8);
  });
}

TEST_CASE("engine: a loop and an interlude that take turns keep the memory of both", "[engine]") {
  drive([](Engine& engine, Driver& driver, const Lane& lane) {
    const Program program = wide_program(64, 500'000);
    REQUIRE(testing::iterations_until_serving(driver, program, lane) < 12);
    driver.iterate(program, 20);
    Random random(20);
    const auto take_turns = [&](std::uint32_t times) {
      for (std::uint32_t i = 0; i < times; ++i) {
        driver.iterate(interlude(random));
        driver.iterate(program, 2);
      }
    };
    take_turns(8);
    const HeldMemory& held = engine.lanes.shared().pool.held();
    const std::uint64_t before = held.purged_bytes();
    take_turns(8);
    CHECK(lane.phase() == Phase::kServing);
    CHECK(held.purged_bytes() - before <= lane.slab().height() / 8);
    CHECK(held.dirty_bytes() > lane.slab().height() / 2);
  });
}

TEST_CASE("engine: a block that grows in the pool does not come on top of the slab", "[engine]") {
  drive([](Engine& engine, Driver& driver, const Lane& lane) {
    const Program program = wide_program(64, 500'000);
    REQUIRE(testing::iterations_until_serving(driver, program, lane) < 12);
    driver.iterate(program, 5);
    const std::uint64_t height = lane.slab().height();
    CHECK(resident_of(lane.slab()) > height / 8 * 7);
    std::uint64_t size = height / 16;
    void* const block = engine.allocate({size, 64, Op::k_malloc, false});
    REQUIRE(engine.lanes.is_pool(*engine.lanes.space_of(block)));
    CHECK(resident_of(lane.slab()) > height / 8 * 7);
    for (; size < height / 2; size += height / 16) {
      REQUIRE(engine.resize(block, size + height / 16));
    }
    CHECK(resident_of(lane.slab()) <= height / 8);
    CHECK(engine.free(block));
    driver.iterate(program);
    CHECK(lane.phase() == Phase::kServing);
  });
}

TEST_CASE("engine: a slab keeps a taller plan's memory while that is served now and then",
          "[engine]") {
  drive([](Engine& engine, Driver& driver, const Lane& lane) {
    const Program tall = wide_program(40, 500'000);
    const Program low = program_of(21);
    for (int times = 0; times < 2; ++times) {
      driver.iterate(tall, 40);
      driver.iterate(low, 40);
    }
    REQUIRE(lane.phase() == Phase::kServing);
    const std::uint64_t height = lane.slab().height();
    REQUIRE(height > 16'000'000);
    std::uint64_t now = 0;
    for (; now < 40; ++now) {
      driver.iterate(low, 2);
      if (now % 8 == 0) {
        driver.iterate(tall, 3);
      }
      engine.give_back.tick(now * os::kSecond);
      REQUIRE(lane.slab().height() == height);
    }
    for (const std::uint64_t end = now + 24; now < end; ++now) {
      driver.iterate(low, 2);
      engine.give_back.tick(now * os::kSecond);
    }
    CHECK(lane.phase() == Phase::kServing);
    CHECK(engine.lanes.shared().slabs.bytes < height / 4);
    CHECK(testing::resident_bytes(lane.slab().at(0), height) < height / 4);
    driver.iterate(tall, 3);
    CHECK(lane.slab().height() == height);
  });
}

TEST_CASE("lane: what is owed is paid once", "[engine]") {
  Debt debt;
  CHECK_FALSE(debt.pay(4096));
  debt.set(10'000);
  CHECK(debt.pay(8192));
  CHECK(debt.bytes() == 10'000 - 8192);
  CHECK(debt.pay(8192));
  CHECK(debt.bytes() == 0);
  CHECK_FALSE(debt.pay(8192));
}

}  // namespace
}  // namespace memo
