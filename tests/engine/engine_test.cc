// The engine as a plain object: a stream is learned, planned and served, on one thread.
#include "src/engine/engine.h"

#include <array>
#include <catch2/catch.hpp>
#include <set>
#include <utility>
#include <vector>

#include "src/base/units.h"
#include "tests/support/engines.h"

namespace memo {
namespace {

using testing::Block;
using testing::drive;
using testing::Driver;
using testing::in_thread;
using testing::OwnEngine;
using testing::Program;
using testing::program_of;

TEST_CASE("engine: nothing is set up before the first allocation", "[engine]") {
  OwnEngine own;
  CHECK_FALSE(own.engine.lanes.opened());
  CHECK_FALSE(own.engine.owns(nullptr));
  CHECK_FALSE(own.engine.owns(&own));
  CHECK(own.engine.lanes.count() == 0);
  own.engine.give_back.all();
  CHECK_FALSE(own.engine.give_back.trim());
  own.engine.iteration();
  own.engine.give_back.tick(Nanos{1});
}

TEST_CASE("engine: learns a stream, waits for a quiet point, and serves it whole", "[engine]") {
  drive([](Engine& engine, Driver& driver, const Lane& lane) {
    const Program program = program_of(1);
    std::set<Phase> phases;
    for (int i = 0; i < 8 && lane.phase() != Phase::kServing; ++i) {
      for (const testing::ProgramStep& step : program) {
        driver.step(step);
        phases.insert(lane.phase());
      }
    }
    CHECK(phases == std::set<Phase>{Phase::kLearning, Phase::kReady, Phase::kServing});
    CHECK(lane.counters.plans.get() == 1);
    CHECK(lane.slab().tallest() >= lane.slab().bound());
    CHECK(lane.slab().bound() > 0);
    CHECK(engine.lanes.shared().slabs.bytes == lane.slab().tallest());
    driver.iterate(program);  // to the end of the iteration that serving began in
    const std::uint64_t served = lane.counters.planned_allocations.get();
    const std::uint64_t fallbacks = lane.counters.fallback_allocations.get();
    const std::uint64_t iterations = lane.counters.iterations.get();
    driver.iterate(program, 20);
    CHECK(lane.counters.planned_allocations.get() == served + 20 * program.size());
    CHECK(lane.counters.iterations.get() == iterations + 20);
    CHECK(lane.counters.fallback_allocations.get() == fallbacks);
    CHECK(lane.counters.diverged.get() == 0);
    CHECK(engine.lanes.shared().pool.held().live_bytes() == 0);
  });
}

TEST_CASE("engine: each iteration has the same addresses, all in the slab", "[engine]") {
  drive([](Engine& engine, Driver& driver, const Lane& lane) {
    const Program program = program_of(2);
    testing::iterations_until_serving(driver, program, lane);
    REQUIRE(lane.phase() == Phase::kServing);
    driver.iterate(program);
    std::vector<std::vector<char*>> rounds(3);
    for (std::vector<char*>& round : rounds) {
      for (const testing::ProgramStep& step : program) {
        const Block block = driver.take(step.size);
        round.push_back(block.start);
        CHECK(block.start >= lane.slab().space().base());
        CHECK(block.start + step.size <= lane.slab().space().base() + lane.slab().tallest());
        CHECK(engine.size(block.start) == bytes_of(granules_of(step.size)));
        driver.keep(block, step.lifetime);
      }
    }
    CHECK(rounds[0] == rounds[1]);
    CHECK(rounds[1] == rounds[2]);
  });
}

TEST_CASE("engine: a told iteration is learned after three", "[engine]") {
  drive([](Engine& engine, Driver& driver, const Lane& lane) {
    const Program program = program_of(3, 5);  // too short to be believed untold
    std::uint32_t count = 0;
    while (lane.phase() != Phase::kServing && count < 8) {
      engine.iteration();
      driver.iterate(program);
      ++count;
    }
    CHECK(count <= 5);
  });
}

TEST_CASE("engine: learns again when the program changes, and knows the old one", "[engine]") {
  drive([](Engine&, Driver& driver, const Lane& lane) {
    const Program first = program_of(4);
    const Program second = program_of(5, 30);
    testing::iterations_until_serving(driver, first, lane);
    driver.iterate(first, 40);
    driver.iterate(second, 3);
    CHECK(lane.counters.diverged.get() == 1);
    testing::iterations_until_serving(driver, second, lane, 20);
    REQUIRE(lane.phase() == Phase::kServing);
    CHECK(lane.counters.plans.get() == 2);
    driver.iterate(second, 40);
    const std::uint64_t fallbacks = lane.counters.fallback_allocations.get();
    for (const Program* program : {&first, &second, &first}) {
      driver.iterate(*program, 1);  // notices, and goes over to the known plan
      const std::uint64_t served = lane.counters.planned_allocations.get();
      driver.iterate(*program, 10);
      CHECK(lane.counters.planned_allocations.get() == served + 10 * program->size());
    }
    CHECK(lane.counters.plans.get() == 2);
    CHECK(lane.counters.diverged.get() == 1);
    CHECK(lane.counters.fallback_allocations.get() - fallbacks <= 3);
  });
}

TEST_CASE("engine: extra, missing and changed calls cost themselves", "[engine]") {
  drive([](Engine&, Driver& driver, const Lane& lane) {
    const Program program = program_of(6);
    testing::iterations_until_serving(driver, program, lane);
    driver.iterate(program, 5);
    const std::uint64_t fallbacks = lane.counters.fallback_allocations.get();
    for (std::size_t at = 0; at < program.size(); at += 3) {
      for (std::size_t i = 0; i < program.size(); ++i) {
        const std::size_t kind = i == at ? at % 4 : 3;
        if (kind == 0) {
          driver.step({99'999, 3});
        }
        if (kind == 1) {
          continue;
        }
        driver.step(kind == 2 ? testing::ProgramStep{88'888, 2} : program[i]);
      }
    }
    CHECK(lane.counters.fallback_allocations.get() - fallbacks <= 2 * (program.size() / 3 + 1));
    CHECK(lane.counters.fallback_allocations.get() > fallbacks);
    CHECK(lane.phase() == Phase::kServing);
    CHECK(lane.counters.diverged.get() == 0);
  });
}

TEST_CASE("engine: a block that stays too long keeps its bytes", "[engine]") {
  drive([](Engine&, Driver& driver, const Lane& lane) {
    const Program program = program_of(7);
    testing::iterations_until_serving(driver, program, lane);
    driver.iterate(program, 2);
    const Block kept = driver.take(program[0].size);
    for (std::size_t i = 1; i < program.size(); ++i) {
      driver.step(program[i]);
    }
    driver.iterate(program, 5);
    CHECK(lane.counters.fallback_occupied.get() > 0);
    CHECK(kept.whole());
    driver.release(kept);
    driver.iterate(program);
    const std::uint64_t occupied = lane.counters.fallback_occupied.get();
    driver.iterate(program, 5);
    CHECK(lane.counters.fallback_occupied.get() == occupied);
  });
}

TEST_CASE("engine: zeroed blocks are zero in every phase", "[engine]") {
  drive([](Engine& engine, Driver& driver, const Lane& lane) {
    const Program program = program_of(8);
    const auto iterate = [&] {
      for (const testing::ProgramStep& step : program) {
        driver.step(step, 64, true);  // the driver looks
      }
    };
    for (int i = 0; i < 10; ++i) {
      iterate();
    }
    REQUIRE(lane.phase() == Phase::kServing);
    engine.give_back.all();
    iterate();
    iterate();
    driver.step({77'777, 1}, 64, true);
  });
}

TEST_CASE("engine: alignments hold in every phase", "[engine]") {
  drive([](Engine& engine, Driver& driver, const Lane& lane) {
    CHECK(engine.allocate({65'536, 128ULL << 20, Op::k_malloc, false}) == nullptr);
    for (std::uint64_t alignment = 16; alignment <= 64ULL << 20; alignment *= 2) {
      driver.step({65'536, 1}, alignment);  // the driver looks
    }
    const Program program = program_of(9, 16);
    for (int round = 0; round < 12; ++round) {
      for (std::size_t i = 0; i < program.size(); ++i) {
        driver.step(program[i], std::min<std::uint64_t>(16ULL << i, 1ULL << 17));
      }
    }
    REQUIRE(lane.phase() == Phase::kServing);
    CHECK(lane.counters.fallback_alignment.get() == 0);
    for (const testing::ProgramStep& step : program) {
      driver.step(step, 64ULL << 20);  // stricter than planned
    }
    CHECK(lane.counters.fallback_alignment.get() > 0);
  });
}

TEST_CASE("engine: only starts of blocks are freed, once", "[engine]") {
  drive([](Engine& engine, Driver&, const Lane& lane) {
    auto* block = static_cast<char*>(engine.allocate({100'000, 16, Op::k_malloc, false}));
    REQUIRE(engine.owns(block));
    CHECK(engine.size(block) >= 100'000);
    CHECK(engine.size(block + kGranule) == 0);
    CHECK(engine.size(block + 16) == 0);
    CHECK_FALSE(engine.free(block + kGranule));
    CHECK_FALSE(engine.free(block + 16));
    CHECK_FALSE(engine.free(lane.slab().space().base()));
    CHECK_FALSE(
        engine.free(lane.slab().space().base() + lane.slab().space().bytes()));  // no such lane
    CHECK(engine.free(block));
    CHECK_FALSE(engine.free(block));
    CHECK(engine.size(block) == 0);
    CHECK_FALSE(engine.owns(engine.lanes.shared().pool.spaces().front().base() - 1));
  });
}

TEST_CASE("engine: resizes in place or not at all", "[engine]") {
  drive([](Engine& engine, Driver& driver, const Lane& lane) {
    Block block = driver.take(100'000);
    CHECK(engine.resize(block.start, 300'000));
    CHECK(block.whole());
    CHECK(engine.size(block.start) >= 300'000);
    CHECK(engine.resize(block.start, 100'000));
    CHECK(block.whole());
    in_thread([&] {  // the pool is everybody's
      CHECK(engine.resize(block.start, 500'000));
      CHECK(block.whole());
      CHECK(engine.resize(block.start, 100'000));
    });
    driver.release(block);
    const Program program = program_of(10);
    testing::iterations_until_serving(driver, program, lane);
    driver.iterate(program);
    block = driver.take(program[0].size);
    REQUIRE(block.start >= lane.slab().space().base());
    CHECK(engine.resize(block.start, program[0].size - 5000));
    CHECK_FALSE(engine.resize(block.start, 2 * program[0].size));
    CHECK_FALSE(engine.resize(block.start, program[0].size / 4));
    CHECK(block.whole());
    driver.release(block);
  });
}

TEST_CASE("engine: what is cut and kept is no part of a plan", "[engine]") {
  for (const bool cuts : {false, true}) {
    drive([&](Engine& engine, Driver&, const Lane& lane) {
      const Counters& counters = lane.counters;
      constexpr std::uint64_t kSize = 4 << 20;
      std::array<void*, 8> kept{};
      for (std::size_t i = 0; i < 400; ++i) {
        void* const whole = engine.allocate({kSize, 16, Op::k_malloc, false});
        REQUIRE(whole != nullptr);
        for (std::uint64_t size = 100'000; size < 124'000; size += 1000) {
          CHECK(engine.free(engine.allocate({size, 16, Op::k_malloc, false})));
        }
        if (cuts && engine.size(whole) == kSize) {
          REQUIRE(engine.resize(whole, kSize / 4));
        }
        void*& oldest = kept[i % kept.size()];
        CHECK((oldest == nullptr || engine.free(oldest)));
        oldest = whole;
      }
      CHECK(counters.planned_allocations.get() > 0);
      CHECK((lane.slab_height() < kSize) == cuts);
    });
  }
}

TEST_CASE("engine: the library's own calls and impossible ones pass by", "[engine]") {
  drive([](Engine& engine, Driver&, const Lane& lane) {
    const std::uint64_t calls = lane.counters.large_allocations.get();
    {
      const RecursionGuard guard;
      CHECK(engine.allocate({65'536, 16, Op::k_malloc, false}) == nullptr);
    }
    CHECK(engine.allocate({1ULL << 62, 16, Op::k_malloc, false}) == nullptr);
    CHECK(lane.counters.large_allocations.get() == calls);
  });
}

Engine* g_interrupted = nullptr;
void* g_answer = &g_interrupted;

TEST_CASE("engine: a signal handler inside an allocation gets the underlying allocator",
          "[engine]") {
  // The host's hooks run in the middle of an allocation, as a signal handler may.
  EngineHost host;
  host.phase_changed = [](const RecursionGuard&) {
    const auto inside = std::exchange(t_state.inside, std::uint16_t{0});
    g_answer = g_interrupted->allocate({65'536, 16, Op::k_malloc, false});
    t_state.inside = inside;
  };
  OwnEngine own({}, host);
  g_interrupted = &own.engine;
  drive(own, [](Engine& engine, Driver& driver, const Lane& lane) {
    const Program program = program_of(18);
    testing::iterations_until_serving(driver, program, lane);
    CHECK(g_answer == nullptr);
    CHECK(engine.lanes.passed_on.fallback_busy.get() == 1);
    CHECK(engine.lanes.passed_on.other_bytes.get() == 65'536);
    driver.iterate(program, 3);
    CHECK(lane.phase() == Phase::kServing);
  });
}

TEST_CASE("engine: with a trace every event is recorded, while serving too", "[engine]") {
  Options options;
  options.TRACE_FILE = "trace.csv";
  OwnEngine own(options);
  drive(own, [](Engine& engine, Driver& driver, const Lane& lane) {
    const Program program = program_of(19);
    testing::iterations_until_serving(driver, program, lane);
    REQUIRE(lane.phase() == Phase::kServing);
    engine.iteration();
    driver.iterate(program, 10);
    const Recorder& recorder = lane.recorder();
    REQUIRE(recorder.count() == lane.counters.large_allocations.get());
    REQUIRE(recorder.marks().size() == 1);
    const std::uint32_t base = recorder.count() - 10 * static_cast<std::uint32_t>(program.size());
    for (std::uint32_t i = base; i < recorder.count(); ++i) {
      const testing::ProgramStep& step = program[(i - base) % program.size()];
      REQUIRE(recorder.log()[i].size == step.size);
      REQUIRE(recorder.log()[i].death == i + step.lifetime);
      REQUIRE(recorder.stamps()[i].died > recorder.stamps()[i].born);
    }
  });
}

}  // namespace
}  // namespace memo
