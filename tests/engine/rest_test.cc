// What is kept, and when: who is told of it, and what ticks give back once a loop was left.
#include <catch2/catch.hpp>

#include "src/base/os.h"
#include "src/engine/engine.h"
#include "tests/support/engines.h"

namespace memo {
namespace {

using testing::Block;
using testing::drive;
using testing::Driver;
using testing::OwnEngine;
using testing::program_of;
using testing::Random;

std::uint32_t times_told = 0;  // times that the host was told

std::uint64_t free_bytes(const Engine& engine) {
  return engine.lanes.shared().pool.held().dirty_bytes();
}

// Blocks of sizes in no order, so that nothing is served from a plan.
std::vector<Block> take_some(Random& random, Driver& driver, std::uint64_t count) {
  std::vector<Block> blocks;
  for (std::uint64_t i = 0; i < count; ++i) {
    blocks.push_back(driver.take(500'000 + testing::below(random, 200'000)));
  }
  return blocks;
}

TEST_CASE(
    "engine: what the pool keeps is told once it is much, and is a thread's own affair before",
    "[engine]") {
  OwnEngine own({}, {.start_background_thread = [](const RecursionGuard&) { ++times_told; }});
  times_told = 0;
  drive(own, [](Engine& engine, Driver& driver, const Lane& lane) {
    Random random(15);
    // Few calls, however much they leave.
    std::vector<Block> few;
    while (lane.counters.pooled_allocations.get() + 1 < tuning::kEarlyCalls) {
      few.push_back(driver.take(1'000'000));
    }
    for (const Block& block : few) {
      driver.release(block);
    }
    CHECK(free_bytes(engine) >= tuning::kKept);
    CHECK(times_told == 0);
    engine.give_back.trim();
    const std::uint64_t many = 2 * tuning::kKept / 500'000;
    const std::vector<Block> blocks = take_some(random, driver, many);
    CHECK(times_told == 0);
    for (const Block& block : blocks) {
      const std::uint32_t before = times_told;
      driver.release(block);
      CHECK((times_told != before) == (free_bytes(engine) >= tuning::kKept));
    }
    CHECK(free_bytes(engine) >= tuning::kKept);
    const std::uint32_t before = times_told;
    driver.release(driver.take(65'536));
    CHECK(times_told == before + 2);
  });
}

// Whether the host is told of so many blocks, taken one after the other and then freed.
bool told_of(std::uint32_t count, std::uint64_t bytes) {
  OwnEngine own({}, {.start_background_thread = [](const RecursionGuard&) { ++times_told; }});
  times_told = 0;
  drive(own, [&](Engine&, Driver& driver, const Lane&) {
    std::vector<Block> blocks;
    for (std::uint32_t i = 0; i < count; ++i) {
      blocks.push_back(driver.take(bytes));
    }
    for (const Block& block : blocks) {
      driver.release(block);
    }
  });
  return times_told != 0;
}

TEST_CASE("engine: a dozen MiB of twenty calls are told, not of twelve, and not half of them",
          "[engine]") {
  CHECK(told_of(20, 600 << 10));
  CHECK_FALSE(told_of(12, 1000 << 10));
  CHECK_FALSE(told_of(20, 300 << 10));
}

TEST_CASE("engine: rests once the pool's memory was given back, and so is what is freed at rest",
          "[engine]") {
  drive([](Engine& engine, Driver& driver, const Lane&) {
    Random random(16);
    std::vector<Block> blocks = take_some(random, driver, 60);
    const std::vector<Block> late(blocks.begin() + 30, blocks.end());
    blocks.resize(30);
    for (const Block& block : blocks) {
      driver.release(block);
    }
    std::uint64_t now = 1;
    for (; now * os::kSecond <= 2 * tuning::kAtRest; ++now) {
      CHECK_FALSE(engine.give_back.tick(now * os::kSecond));
      CHECK(free_bytes(engine) > 0);
    }
    engine.give_back.tick(++now * os::kSecond);
    CHECK(engine.give_back.tick(++now * os::kSecond));
    CHECK(free_bytes(engine) == 0);
    for (const Block& block : late) {
      driver.release(block);
    }
    CHECK(free_bytes(engine) > 0);
    CHECK(engine.give_back.tick(++now * os::kSecond));
    CHECK(free_bytes(engine) == 0);
    driver.release(driver.take(700'000));
    CHECK_FALSE(engine.give_back.tick(++now * os::kSecond));
  });
}

TEST_CASE("engine: what a program used once goes while it works on, also where it makes few calls",
          "[engine]") {
  drive([](Engine& engine, Driver& driver, const Lane&) {
    Random random(17);
    for (const Block& block : take_some(random, driver, 60)) {
      driver.release(block);
    }
    CHECK(free_bytes(engine) >= 60 * 500'000);
    for (Nanos now = 100 * os::kSecond; now <= 130 * os::kSecond; now += os::kSecond) {
      driver.release(driver.take(700'000));
      CHECK_FALSE(engine.give_back.tick(now));
    }
    CHECK(free_bytes(engine) <= 1'000'000);
  });
}

Engine* taking = nullptr;  // whose lane takes a slab
std::uint32_t resting = 0;
std::uint32_t ticks = 0;

// Two ticks, long apart, in the middle of a call that takes a slab.
void tick_in_call() {
  resting += taking->give_back.tick(os::kSecond) ? 1U : 0U;
  resting += taking->give_back.tick(100 * os::kSecond) ? 1U : 0U;
  ++ticks;
}

TEST_CASE("engine: rests no sooner than a lane that is at work has given its slab back",
          "[engine]") {
  OwnEngine own({}, {.trim_next = tick_in_call});
  taking = &own.engine;
  resting = ticks = 0;
  drive(own, [](Engine& engine, Driver& driver, const Lane& lane) {
    testing::iterations_until_serving(driver, testing::untried_program(), lane);
    CHECK(ticks == 1);
    CHECK(resting == 0);
    CHECK(engine.lanes.shared().slabs.bytes != 0);
  });
}

}  // namespace
}  // namespace memo
