// Threads that work at once: slabs in use are not lent, and of many threads those without one share the pool.
#include <catch2/catch.hpp>
#include <cstring>
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

TEST_CASE("threads: a slab with a block in it is not lent", "[engine]") {
  const Program program = program_of(1);
  beside_one_at_work(program, [&](Engine& engine, Driver& second, std::uint64_t one) {
    testing::rest_for(3 * tuning::kRestNanoseconds);
    second.iterate(program, 5);
    CHECK(engine.lanes.at(1).phase() == Phase::kServing);
    CHECK(engine.lanes.shared().slabs.bytes == 2 * one);
  });
}

TEST_CASE("threads: more than can run at once share the pool", "[engine]") {
  const Program program = program_of(1);
  beside_one_at_work(program, [&](Engine& engine, Driver& second, std::uint64_t one) {
    SlabBooks& slabs = engine.lanes.shared().slabs;
    CHECK(slabs.most == tuning::kSlabsPerProcessor * os::processors());
    slabs.most = 1;
    second.iterate(program, 10);
    CHECK(engine.lanes.at(1).phase() != Phase::kServing);
    CHECK(engine.lanes.at(1).counters.pooled_allocations.get() == 10 * program.size());
    CHECK(engine.lanes.at(1).counters.plans.get() == 0);  // the loop has one
    CHECK(slabs.bytes == one);
    const Program other = program_of(2);
    second.iterate(other, 2);
    slabs.most = 2;
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
    engine.lanes.shared().slabs.most = shares ? 1 : 2;
    second.iterate(program, 5);
    const Holding& pool = engine.lanes.shared().pool.held();
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
      REQUIRE(lane.give_back());
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
    SlabBooks& slabs = engine.lanes.shared().slabs;
    slabs.most = 1;
    second.iterate(program, 2000 / static_cast<std::uint32_t>(program.size()));
    slabs.most = 2;
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
    CHECK(iterations <= tuning::kMaxSlabWait / program.size() + 1);
  });
}

TEST_CASE("threads: no other slab is taken while a thread leaves its own", "[engine]") {
  const Program program = program_of(1);
  OwnEngine own;
  in_thread([&] {
    Driver second(own.engine, 1ULL << 40);
    second.iterate({{65'536, 1}});
    testing::drive(own, [&](Engine&, Driver& first, const Lane&) { first.iterate(program, 10); });
    SlabBooks& slabs = own.engine.lanes.shared().slabs;
    slabs.most = 1;
    const std::uint64_t one = slabs.bytes;
    REQUIRE(one != 0);
    CHECK(own.engine.lanes.at(1).with_slab([&](const Slab&) { second.iterate(program, 2); }));
    CHECK(slabs.bytes == one);
    second.iterate(program, 10);
    CHECK(own.engine.lanes.at(0).slab_height() == one);
    CHECK(slabs.bytes == one);
    second.free_due(UINT64_MAX);
    CHECK(second.wrong == 0);
  });
}

}  // namespace
}  // namespace memo
