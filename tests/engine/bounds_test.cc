// What the engine keeps, gives back and waits for: streams on both sides of a bound.
#include <catch2/catch.hpp>
#include <vector>

#include "src/engine/engine.h"
#include "tests/support/engines.h"
#include "tests/support/spaces.h"

namespace memo {
namespace {

using testing::Block;
using testing::Driver;
using testing::Program;
using testing::Random;

std::uint64_t unused_bytes(const Engine& engine) {
  return engine.lanes.shared().pool.held().dirty_bytes();
}

TEST_CASE("engine: a freed block of a dozen MiB goes back while nothing is known, half of it stays",
          "[engine]") {
  testing::drive([](Engine& engine, Driver& driver, const Lane&) {
    const std::uint64_t before = unused_bytes(engine);
    driver.release(driver.take(12 * kMiB));
    CHECK(unused_bytes(engine) <= before);
    driver.release(driver.take(6 * kMiB));
    CHECK(unused_bytes(engine) >= 6 * kMiB);
  });
}

// Holes that the next blocks do not fit into.
TEST_CASE("engine: the pool of a loop keeps an eighth of what comes and goes beyond its peak",
          "[engine]") {
  const bool loop = GENERATE(true, false);
  INFO("sizes that come again " << loop);
  testing::drive([&](Engine& engine, Driver& driver, const Lane&) {
    driver.release(driver.take(32 * kMiB));
    std::vector<Block> blocks;
    for (std::uint64_t i = 0; i < 32; ++i) {
      blocks.push_back(driver.take(kMiB - (loop ? 0 : i * kGranule)));
    }
    for (std::size_t i = 0; i < blocks.size(); i += 2) {
      driver.release(blocks[i]);
    }
    for (int i = 0; i < 8; ++i) {
      driver.take(2 * kMiB);
    }
    const HeldMemory& held = engine.lanes.shared().pool.held();
    CHECK(held.dirty_bytes() <= (loop ? 4 * kMiB : kMiB));
    CHECK(held.dirty_bytes() >= (loop ? 3 * kMiB : 0));
  });
}

// Weights that are made one by one, all of a size.
TEST_CASE("engine: what a growing peak asks for was not had before", "[engine]") {
  testing::drive([](Engine& engine, Driver& driver, const Lane& lane) {
    for (int i = 0; i < 24; ++i) {
      driver.take(kMiB);
    }
    CHECK(lane.tracker().state().search.sizes.looping());
    CHECK(lane.tracker().state().search.calm >= 23);
    CHECK(engine.lanes.valid());
  });
}

TEST_CASE("engine: a freed block of a dozen MiB waits for the next call, if that may come",
          "[engine]") {
  testing::drive([](Engine& engine, Driver& driver, const Lane& lane) {
    for (std::uint64_t i = 0; i < tuning::kEarlyCalls; ++i) {
      driver.take(65'536 + (i << 12));
    }
    const std::uint64_t before = unused_bytes(engine);
    const Block first = driver.take(12 * kMiB);
    char* const place = first.start;
    driver.release(first);
    CHECK(unused_bytes(engine) == before + 12 * kMiB);
    const std::uint64_t at_hand = lane.counters.at_hand_bytes.get();
    CHECK(driver.take(12 * kMiB).start == place);
    CHECK(lane.counters.at_hand_bytes.get() == at_hand + 12 * kMiB);
    driver.release(driver.take(16 * kMiB));
    CHECK(unused_bytes(engine) == before + 16 * kMiB);
    driver.take(kMiB);
    CHECK(unused_bytes(engine) <= before);
  });
}

TEST_CASE("engine: a block of some dozen MiB waits for no other while nothing is known",
          "[engine]") {
  testing::drive([](Engine& engine, Driver& driver, const Lane&) {
    for (std::uint64_t i = 0; i < tuning::kEarlyCalls; ++i) {
      driver.take(65'536 + (i << 12));
    }
    const std::uint64_t before = unused_bytes(engine);
    for (int i = 0; i < 3; ++i) {
      driver.release(driver.take(48 * kMiB));
      CHECK(unused_bytes(engine) <= before);
    }
    driver.release(driver.take(24 * kMiB));
    CHECK(unused_bytes(engine) == before + 24 * kMiB);
  });
}

TEST_CASE("engine: the pool of an unordered stream keeps a quarter more than its peak",
          "[engine]") {
  testing::drive([](Engine& engine, Driver& driver, const Lane&) {
    Random random(1);
    driver.release(driver.take(200'000));
    for (int i = 0; i < 2200; ++i) {
      driver.release(driver.take(65'536 + testing::below(random, 130'000)));
    }
    std::vector<Block> blocks;
    for (int i = 0; i < 32; ++i) {
      blocks.push_back(driver.take(kMiB));
    }
    for (std::size_t i = 0; i < blocks.size(); i += 2) {
      driver.release(blocks[i]);
    }
    // They fit into none of the sixteen holes, and are as large together.
    std::vector<Block> others;
    for (int i = 0; i < 8; ++i) {
      others.push_back(driver.take(2 * kMiB));
    }
    const HeldMemory& held = engine.lanes.shared().pool.held();
    REQUIRE(held.live_bytes() == held.peak_bytes());
    CHECK(held.dirty_bytes() >= 6 * kMiB);
    CHECK(held.dirty_bytes() <= 12 * kMiB);
    for (std::size_t i = 1; i < blocks.size(); i += 2) {
      driver.release(blocks[i]);
    }
    for (const Block& block : others) {
      driver.release(block);
    }
  });
}

// The call of the iteration at which a loop begins to be served: nothing is alive before the first
// and the last, `mostly` bytes before others, and 24 MiB more before one.
std::uint32_t first_served(std::uint64_t mostly) {
  Program program;
  for (std::uint64_t call = 0; call < 40; ++call) {
    program.push_back({65'536 + 4096 * call, 1});
  }
  program[0] = {mostly, 39};
  program[5] = {24 * kMiB, 2};
  std::uint32_t calls = 20;  // the search ends in the middle of an iteration
  testing::drive([&](Engine&, Driver& driver, const Lane& lane) {
    for (; lane.phase() != Phase::kServing; ++calls) {
      REQUIRE(calls < 400);
      driver.step(program[calls % 40]);
    }
  });
  return (calls - 1) % 40;
}

TEST_CASE("engine: a moment is quiet when a twenty-fourth of the swing is alive, not a twelfth",
          "[engine]") {
  CHECK(first_served(kMiB) < 39);
  CHECK(first_served(2 * kMiB) == 39);
}

TEST_CASE("engine: a slab is kept for three seconds without a call, and not for six", "[engine]") {
  testing::drive([](Engine& engine, Driver& driver, const Lane& lane) {
    testing::iterations_until_serving(driver, testing::program_of(1), lane);
    REQUIRE(lane.slab_height() != 0);
    engine.give_back.tick(100 * os::kSecond);
    engine.give_back.tick(103 * os::kSecond);
    CHECK(lane.slab_height() != 0);
    engine.give_back.tick(106 * os::kSecond);
    CHECK(lane.slab_height() == 0);
  });
}

}  // namespace
}  // namespace memo
