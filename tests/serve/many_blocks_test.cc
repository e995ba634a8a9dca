// An arena with more blocks than one walk looks at.
#include <algorithm>
#include <catch2/catch.hpp>
#include <vector>

#include "tests/support/arenas.h"
#include "tests/support/process.h"

namespace memo {
namespace {

using testing::ArenaFixture;
using testing::below;
using testing::Random;

constexpr std::size_t kBlocks = 20'000;

struct ManyBlocks : ArenaFixture {
  std::vector<char*> blocks;
  ManyBlocks() {
    char* low = take(kGranule);
    for (std::size_t i = 0; i < kBlocks; ++i) {
      blocks.push_back(take(kGranule));
    }
    REQUIRE(arena.free(low));  // from here on each walk begins below all others
  }
};

TEST_CASE("page map: a walk ends after its steps, and goes on where it stopped", "[serve]") {
  testing::OwnSpace own(64 << 20);
  REQUIRE(own.space.commit(1 << 20));
  PageMap& map = own.space.pages;
  const FreeRuns& runs = own.space.runs;
  for (Granules at; at < 100_g; at += 2_g) {
    REQUIRE(map.claim(at, 1_g).granted);
  }
  FreeRuns::Walk walk{0_g, 110_g, 99};
  CHECK(runs.best_fit(walk, 5_g, 1_g).count == 0_g);
  CHECK(walk.at == 99_g);
  walk.steps = 1;
  CHECK(runs.best_fit(walk, 5_g, 1_g).first == 99_g);
  FreeRuns::Walk dirty{0_g, 110_g, 10};
  CHECK(runs.next_dirty(dirty, 5_g).count == 0_g);
  CHECK(dirty.at == 10_g);
}

TEST_CASE_METHOD(ManyBlocks, "arena: behind many blocks what was freed last is used again",
                 "[serve]") {
  char* const first = take(2 * kGranule);
  REQUIRE(arena.free(first));
  for (int i = 0; i < 100; ++i) {
    char* block = take(2 * kGranule);
    CHECK(block == first);
    CHECK(arena.free(block));
  }
}

TEST_CASE_METHOD(ManyBlocks, "arena: among many blocks gaps are found in the end", "[serve]") {
  for (std::size_t i = kBlocks / 2; i < kBlocks / 2 + 64; ++i) {
    REQUIRE(arena.free(blocks[i]));
  }
  char* const gap = blocks[kBlocks / 2];
  int calls = 1;
  while (take(48 * kGranule) != gap) {
    REQUIRE(++calls < 10);
  }
}

TEST_CASE_METHOD(ManyBlocks, "arena: with many blocks neither addresses nor memory grow",
                 "[serve]") {
  Random random(5);
  std::vector<char*> others(200, nullptr);
  char* highest = nullptr;
  for (int i = 0; i < 20'000; ++i) {
    char*& other = others[below(random, others.size())];
    if (other != nullptr) {
      REQUIRE(arena.free(other));
    }
    other = take((1 + below(random, 20)) * kGranule);
    highest = std::max(highest, other);
  }
  const std::uint64_t most = (kBlocks + others.size() * 20) * kGranule;
  CHECK(static_cast<std::uint64_t>(highest - space.base()) < most + most / 4);
  CHECK(arena.held().live_bytes() + arena.held().dirty_bytes() <=
        arena.held().peak_bytes() + 100 * kGranule);
  CHECK(arena.valid());
}

}  // namespace
}  // namespace memo
