// An arena with very many blocks.
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
    REQUIRE(arena.free(low));
  }
};

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

TEST_CASE_METHOD(ManyBlocks, "arena: among many blocks a gap is found at once", "[serve]") {
  for (std::size_t i = kBlocks / 2; i < kBlocks / 2 + 64; ++i) {
    REQUIRE(arena.free(blocks[i]));
  }
  CHECK(take(48 * kGranule) == blocks[kBlocks / 2]);
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
