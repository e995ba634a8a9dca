// What calls cost, whatever came before them: counted in free runs that are looked at, not in seconds.
#include <algorithm>
#include <catch2/catch.hpp>
#include <vector>

#include "src/base/tuning.h"
#include "tests/support/arenas.h"
#include "tests/support/process.h"

namespace memo {
namespace {

using testing::below;
using testing::OwnSpace;
using testing::Random;

constexpr std::uint64_t kGiB = 1ULL << 30;

// The most that arena.h allows a call about so many bytes: for its place, and for what it gives back.
std::uint64_t bound(std::uint64_t bytes) {
  return 200 + bytes / kGranule + tuning::kCallWork;
}

// An arena of as many addresses as a large machine's; blocks are not touched.
struct Large {
  OwnSpace own{64 * kGiB};
  testing::OwnArena arena;
  std::uint64_t most = 0;  // looks of a call
  Large() { arena.open(&own.space); }

  char* take(std::uint64_t bytes, std::uint64_t alignment = 64) {
    const std::uint64_t before = arena.looks();
    const Arena::Block block = arena.allocate(bytes, alignment);
    const std::uint64_t looks = arena.looks() - before;
    REQUIRE(block.start != nullptr);
    REQUIRE(looks <= bound(bytes));
    most = std::max(most, looks);
    return static_cast<char*>(block.start);
  }
  void give(char* block, bool at_once = false) {
    const std::uint64_t before = arena.looks();
    REQUIRE(arena.free(block, at_once));
    REQUIRE(arena.looks() == before);
  }
};

TEST_CASE("arena: after 16 GiB came and went a call looks at no more than before", "[serve]") {
  const bool at_once = GENERATE(false, true);
  const bool trimmed = GENERATE(false, true);
  const bool pinned = GENERATE(false, true);
  Large large;
  std::vector<char*> blocks;
  blocks.reserve(256);
  for (int i = 0; i < 256; ++i) {
    blocks.push_back(large.take(64 * kMiB));
  }
  char* last = pinned ? large.take(kGranule) : nullptr;
  for (char* block : blocks) {
    large.give(block, at_once);
  }
  if (trimmed) {
    large.arena.trim();
  }
  large.most = 0;
  char* const small = large.take(kMiB);
  CHECK(small <= blocks.back());
  for (int i = 0; i < 100; ++i) {
    large.give(large.take(64 * 1024 + static_cast<std::uint64_t>(i) * kGranule));
  }
  CHECK(large.most <= 100);
  CHECK(large.arena.valid());
  large.give(small);
  if (last != nullptr) {
    large.give(last);
  }
}

TEST_CASE("arena: dirty memory is found behind 16 GiB of clean", "[serve]") {
  Large large;
  std::vector<char*> blocks;
  for (int i = 0; i < 256; ++i) {
    blocks.push_back(large.take(64 * kMiB));
  }
  char* const between = large.take(kGranule);
  char* const loop = large.take(8 * kMiB);
  for (char* block : blocks) {
    large.give(block, true);
  }
  large.give(loop);
  CHECK(large.take(8 * kMiB) == loop);
  large.give(between);
}

TEST_CASE("arena: among 100,000 holes and a million blocks each call keeps its bound", "[serve]") {
  Large large;
  std::vector<char*> blocks;
  blocks.reserve(1'200'000);
  for (int i = 0; i < 1'200'000; ++i) {
    blocks.push_back(large.take(kGranule));
  }
  for (std::size_t i = 0; i < blocks.size(); i += 6) {
    large.give(blocks[i]);
  }
  Random random(3);
  std::vector<char*> others(64, nullptr);
  for (int i = 0; i < 2000; ++i) {
    char*& other = others[below(random, others.size())];
    if (other != nullptr) {
      large.give(other);
    }
    other = large.take((1 + below(random, 600)) * kGranule);
    if (i % 500 == 0) {
      const std::uint64_t before = large.arena.looks();
      large.arena.age(8 * kMiB);
      REQUIRE(large.arena.looks() - before <= bound(8 * kMiB));
    }
  }
  CHECK(large.arena.valid());
}

TEST_CASE("arena: a call enters some dozens of freed blocks", "[serve]") {
  Large large;
  std::vector<char*> blocks;
  for (int i = 0; i < 2000; ++i) {
    blocks.push_back(large.take(kGranule));
  }
  // The last one freed is entered first.
  for (std::size_t i = blocks.size(); i != 0; --i) {
    large.give(blocks[i - 1]);
  }
  std::size_t calls = 1;
  while (large.take(1000 * kGranule) > blocks.back()) {
    REQUIRE(++calls < 100);
  }
  CHECK(calls >= 1000 / 128);
  CHECK(calls <= 1000 / 32);
  CHECK(large.arena.valid());
}

TEST_CASE("arena: among gaps that are too short few are looked at", "[serve]") {
  Large large;
  std::vector<char*> blocks;
  for (int i = 0; i < 8000; ++i) {
    blocks.push_back(large.take(kMiB));
  }
  for (std::size_t i = 0; i < blocks.size(); i += 2) {
    large.give(blocks[i]);
  }
  for (int i = 0; i < 100; ++i) {
    large.take(kMiB - kGranule);
    large.take(2 * kMiB);
  }
  CHECK(large.arena.valid());
}

TEST_CASE("arena: a trim for a caller gives back what it is told, and the rest later", "[serve]") {
  testing::ArenaFixture fixture;
  testing::OwnArena& arena = fixture.arena;
  char* const block = fixture.take(100 * kMiB);
  REQUIRE(arena.free(block));
  CHECK(arena.trim(16 * kMiB) == 16 * kMiB);
  CHECK(arena.held().dirty_bytes() == 84 * kMiB);
  char* const other = fixture.take(kMiB);
  CHECK(arena.held().dirty_bytes() <= 80 * kMiB);
  CHECK(arena.settle(10 * kMiB) == 10 * kMiB);
  arena.settle();
  CHECK(arena.held().live_bytes() + arena.held().dirty_bytes() <= arena.held().peak_bytes());
  CHECK(arena.free(other));
  CHECK(arena.valid());
}

}  // namespace
}  // namespace memo
