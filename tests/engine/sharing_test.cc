// Threads that work at once, or take turns: who gets a slab, and who shares the pool.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <optional>
#include <vector>

#include "src/base/bits.h"
#include "src/base/os.h"
#include "src/base/tuning.h"
#include "src/engine/engine.h"
#include "tests/support/engines.h"

namespace memo {
namespace {

using testing::Block;
using testing::Driver;
using testing::in_thread;
using testing::OwnEngine;
using testing::Program;
using testing::program_of;

// Runs function(engine, second, one) on a thread, while another that serves from a slab of `one` bytes is in the middle of an
// iteration.
template <typename Function>
void beside_one_at_work(const Program& program, Function&& function) {
  testing::drive([&](Engine& engine, Driver& first, const Lane& lane) {
    first.iterate(program, 10);
    REQUIRE(lane.phase() == Phase::kServing);
    const std::uint64_t one = engine.lanes.shared().slabs.bytes;
    const Block kept = first.take(program[0].size);
    in_thread([&] {
      Driver second(engine, 1ULL << 40);
      function(engine, second, one);
      second.free_due(UINT64_MAX);
      CHECK(second.wrong == 0);
    });
    first.release(kept);
    CHECK(engine.lanes.valid());
  });
}

// Nobody gets another slab while this lives.
class NoFreeSlabs {
 public:
  explicit NoFreeSlabs(Engine& engine) : slabs_(engine.lanes.shared().slabs) {
    for (std::uint32_t i = 0; i < slabs_.count(); ++i) {
      Slab& slab = slabs_.at(i);
      if (slab.is_free()) {
        CHECK(slab.change(slab.word(), SlabWord::held(kNobody + i, 0)));
        slab.use(os::coarse_nanoseconds() + 3600 * os::kSecond);
      }
    }
  }
  ~NoFreeSlabs() {
    for (std::uint32_t i = 0; i < slabs_.count(); ++i) {
      Slab& slab = slabs_.at(i);
      if (slab.word() == SlabWord::held(kNobody + i, 0)) {
        slab.let_go(os::coarse_nanoseconds());
      }
    }
  }
  NoFreeSlabs(const NoFreeSlabs&) = delete;
  NoFreeSlabs& operator=(const NoFreeSlabs&) = delete;

 private:
  static constexpr std::uint32_t kNobody = SlabWord::kNoLane - tuning::kMaxSlabs;
  Slabs& slabs_;
};

std::uint32_t slabs_with_memory(const Engine& engine) {
  const Slabs& slabs = engine.lanes.shared().slabs;
  std::uint32_t count = 0;
  for (std::uint32_t i = 0; i < slabs.count(); ++i) {
    count += slabs.at(i).height() != 0 ? 1U : 0U;
  }
  return count;
}

TEST_CASE("threads: an idle slab goes to the next thread that works, and back", "[engine]") {
  OwnEngine own;
  const Program program = program_of(1);
  testing::when_serving(own.engine, program, [&](Driver& first) {
    const std::uint64_t one = own.engine.lanes.shared().slabs.bytes;
    testing::rest_for(3 * tuning::kIdle);
    const NoFreeSlabs none(own.engine);
    in_thread([&] {
      Driver second(own.engine, 1ULL << 40);
      second.iterate(program, 5);
      CHECK(own.engine.lanes.at(1).phase() == Phase::kServing);
      CHECK(own.engine.lanes.shared().slabs.bytes == one);
      CHECK(own.engine.lanes.at(0).slab_height() == 0);
      CHECK(own.engine.lanes.at(1).slab_height() == one);
      second.free_due(UINT64_MAX);
      CHECK(second.wrong == 0);
      testing::rest_for(3 * tuning::kIdle);
    });
    first.iterate(program, 3);  // takes it back
    CHECK(own.engine.lanes.shared().slabs.bytes == one);
    CHECK(own.engine.lanes.at(0).slab_height() == one);
    CHECK(first.wrong == 0);
    first.free_due(UINT64_MAX);
    CHECK(own.engine.lanes.valid());
  });
}

TEST_CASE("threads: those that have ended leave their slabs to those that come", "[engine]") {
  OwnEngine own;
  const Program program = program_of(1);
  for (std::uint64_t i = 0; i < 6; ++i) {
    in_thread([&] {
      Driver driver(own.engine, i << 40);
      driver.iterate(program, 10);
      CHECK(my_lane()->phase() == Phase::kServing);
      driver.free_due(UINT64_MAX);
      CHECK(driver.wrong == 0);
      own.engine.thread_ended();
    });
    CHECK(slabs_with_memory(own.engine) == 1);
  }
  CHECK(own.engine.lanes.valid());
}

TEST_CASE("slabs: there are some more than threads can run at once", "[engine]") {
  testing::drive([&](Engine& engine, Driver&, const Lane&) {
    CHECK(engine.lanes.shared().slabs.count() ==
          std::min(tuning::kSlabsPerProcessor * os::processors(), tuning::kMaxSlabs));
  });
}

// The slab of a thread that has ended is not lost for blocks that are alive in it.
TEST_CASE("threads: blocks that stay do not use the slabs up", "[engine]") {
  OwnEngine own;
  const Program program = program_of(1);
  std::vector<Block> kept;
  const std::uint64_t threads = 2 * tuning::kSlabsPerProcessor * os::processors() + 4;
  for (std::uint64_t i = 0; i < std::min<std::uint64_t>(threads, 40); ++i) {
    in_thread([&] {
      Driver driver(own.engine, i << 40);
      driver.iterate(program, 10);
      CHECK(my_lane()->phase() == Phase::kServing);
      kept.push_back(driver.take(program[0].size));
      driver.free_due(UINT64_MAX);
      CHECK(driver.wrong == 0);
      own.engine.thread_ended();
    });
  }
  in_thread([&] {
    Driver driver(own.engine, 1ULL << 60);
    for (const Block& block : kept) {
      driver.release(block);
    }
    CHECK(driver.wrong == 0);
  });
  CHECK(own.engine.lanes.valid());
}

TEST_CASE(
    "threads: who takes up a known plan and an empty slab leaves the pool to those that come next",
    "[engine]") {
  OwnEngine own;
  const Program program = program_of(1);
  const auto work = [&](std::uint64_t number) {
    in_thread([&] {
      Driver driver(own.engine, number << 40);
      driver.iterate(program, 10);
      driver.free_due(UINT64_MAX);
      CHECK(driver.wrong == 0);
      own.engine.thread_ended();
    });
  };
  work(0);
  for (std::uint64_t number = 1; number < 6; number += 2) {
    in_thread([&] {
      Driver driver(own.engine, number << 40);
      const Block first = driver.take(program[0].size);
      const Block second = driver.take(program[1].size);
      work(number + 1);  // at the same time: the pool holds the first calls of both
      driver.release(first);
      driver.release(second);
      own.engine.thread_ended();
    });
  }
  const HeldMemory& pool = own.engine.lanes.shared().pool.held();
  const std::uint64_t kept = pool.dirty_bytes();
  CHECK(kept == 2 * bytes_of(granules_of(program[0].size) + granules_of(program[1].size)));
  work(7);
  CHECK(pool.dirty_bytes() == kept);
}

TEST_CASE("threads: a slab with a block in it is not taken", "[engine]") {
  const Program program = program_of(1);
  beside_one_at_work(program, [&](Engine& engine, Driver& second, std::uint64_t one) {
    testing::rest_for(3 * tuning::kIdle);
    second.iterate(program, 5);
    CHECK(engine.lanes.at(1).phase() == Phase::kServing);
    CHECK(engine.lanes.shared().slabs.bytes == 2 * one);
  });
}

TEST_CASE("threads: more than can run at once share the pool", "[engine]") {
  const Program program = program_of(1);
  beside_one_at_work(program, [&](Engine& engine, Driver& second, std::uint64_t one) {
    const Slabs& slabs = engine.lanes.shared().slabs;
    {
      const NoFreeSlabs none(engine);
      second.iterate(program, 10);
      CHECK(engine.lanes.at(1).phase() != Phase::kServing);
      CHECK(engine.lanes.at(1).counters.pooled_allocations.get() == 10 * program.size());
      CHECK(engine.lanes.at(1).counters.plans.get() == 0);  // the loop has one
      CHECK(slabs.bytes == one);
      const Program other = program_of(2);
      second.iterate(other, 2);
    }
    second.iterate(program, 5);
    CHECK(engine.lanes.at(1).phase() == Phase::kServing);
    CHECK(slabs.bytes == 2 * one);
  });
}

TEST_CASE("threads: a pool that many share keeps a quarter more than its peak", "[engine]") {
  const Program program = program_of(1);
  const bool shares = GENERATE(false, true);
  CAPTURE(shares);
  beside_one_at_work(program, [&](Engine& engine, Driver& second, std::uint64_t) {
    std::optional<NoFreeSlabs> none;
    if (shares) {
      none.emplace(engine);
    }
    second.iterate(program, 5);
    const HeldMemory& pool = engine.lanes.shared().pool.held();
    const std::uint64_t before = pool.purged_bytes();
    constexpr std::uint64_t kSmall = 1U << 20;
    constexpr std::uint32_t kBlocks = 16;
    std::vector<Block> blocks;
    for (std::uint32_t i = 0; i < kBlocks; ++i) {
      blocks.push_back(second.take(kSmall));
    }
    for (std::uint32_t i = 0; i < kBlocks; i += 2) {
      second.release(blocks[i]);
      blocks[i] = second.take(2 * kSmall);  // fits none of the gaps
    }
    const std::uint64_t gaps = kBlocks / 2 * kSmall;
    const std::uint64_t peak = kBlocks / 2 * 3 * kSmall;
    // Where memory was given back decides whether a later block finds some.
    const std::uint64_t least = shares ? gaps - peak / 4 : gaps;
    CHECK(pool.purged_bytes() - before >= least);
    CHECK(pool.purged_bytes() - before <= least + kSmall / 2);
    for (const Block& block : blocks) {
      second.release(block);
    }
  });
}

// Iterations that write so many bytes of each block.
void walk(Engine& engine, const Program& program, std::uint32_t times, std::uint64_t written) {
  for (std::uint32_t i = 0; i < times; ++i) {
    for (const auto& step : program) {
      void* block = engine.allocate({step.size, 64});
      std::memset(block, 1, std::min(step.size, written));
      CHECK(engine.free(block));
    }
  }
}

TEST_CASE("threads: a slab for blocks that another thread wrote in part is not made ready",
          "[engine]") {
  OwnEngine own;
  const Program program = program_of(1);
  in_thread([&] {
    walk(own.engine, program, 20, 8);
    REQUIRE(own.engine.lanes.at(0).phase() == Phase::kServing);
    void* kept = own.engine.allocate({program[0].size, 64});
    in_thread([&] {
      walk(own.engine, program, 1, UINT64_MAX);  // by its own blocks it knows nothing of that
      walk(own.engine, program, 4, 8);
      Lane& lane = own.engine.lanes.at(1);
      REQUIRE(lane.phase() == Phase::kServing);
      lane.give_back();
      REQUIRE(lane.slab_height() == 0);
      void* block = own.engine.allocate({program[0].size, 64});
      CHECK(lane.slab_height() != 0);
      CHECK(os::resident_bytes(block, round_up(program[0].size, os::page_size())) == 0);
      CHECK(own.engine.free(block));
    });
    CHECK(own.engine.free(kept));
  });
}

TEST_CASE("threads: a slab that is refused is asked for more and more seldom", "[engine]") {
  const Program program = program_of(1);
  const bool another = GENERATE(false, true);
  CAPTURE(another);
  beside_one_at_work(program, [&](Engine& engine, Driver& second, std::uint64_t) {
    {
      const NoFreeSlabs none(engine);
      second.iterate(program, 2000 / static_cast<std::uint32_t>(program.size()));
    }
    const Lane& lane = engine.lanes.at(1);
    // A thread that comes after has not been refused anything.
    if (another) {
      second.free_due(UINT64_MAX);
      engine.thread_ended();
      in_thread([&] {
        Driver third(engine, 1ULL << 41);
        CHECK(testing::iterations_until_serving(third, program, lane) == 1);
        third.free_due(UINT64_MAX);
        engine.thread_ended();
      });
      return;
    }
    const std::uint32_t iterations = testing::iterations_until_serving(second, program, lane);
    CHECK(iterations > 1);
    CHECK(iterations <= tuning::kMaxWait / 8 / program.size() + 1);
  });
}

}  // namespace
}  // namespace memo
