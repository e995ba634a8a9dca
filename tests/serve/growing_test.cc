// The arena under blocks that grow, by being copied and in place.
#include <catch2/catch.hpp>
#include <vector>

#include "src/serve/arena.h"
#include "tests/support/arenas.h"

namespace memo {
namespace {

using testing::ArenaFixture;

// numpy.append, torch.cat, a cache of keys and values: each block is a copy of the last, and more.
TEST_CASE_METHOD(ArenaFixture, "arena: blocks that grow by being copied come from memory at hand",
                 "[serve]") {
  constexpr std::uint64_t kLast = 900;  // granules
  for (const std::uint64_t chains : {1UL, 2UL, 5UL}) {
    std::uint64_t lacked = 0;
    std::uint64_t asked = 0;
    for (int pass = 0; pass < 6; ++pass) {
      std::vector<void*> blocks(chains);
      for (std::uint64_t count = 100; count < kLast; count += 10) {
        for (void*& block : blocks) {
          const Arena::Block longer = arena.allocate(count * kGranule, 64);
          REQUIRE(longer.start != nullptr);
          lacked += pass == 0 ? 0 : longer.lacking / kGranule;
          asked += pass == 0 ? 0 : count;
          CHECK((block == nullptr || arena.free(block)));
          block = longer.start;
        }
      }
      for (void* block : blocks) {
        CHECK(arena.free(block));
      }
      CHECK(arena.held().live_bytes() + arena.held().dirty_bytes() <= arena.held().peak_bytes());
    }
    INFO(chains << " at once: " << lacked << " of " << asked << " granules lacked memory");
    CHECK(lacked < asked / 50);
    CHECK(arena.valid());
    arena.trim();
  }
}

TEST_CASE_METHOD(ArenaFixture, "arena: what fits no hole begins in what is free below the top",
                 "[serve]") {
  char* below = take(20 * kGranule);
  char* last = take(100 * kGranule);
  CHECK(arena.free(last));
  const Arena::Block longer = arena.allocate(150 * kGranule, 64);
  CHECK(longer.start == last);
  CHECK(longer.lacking == 50 * kGranule);
  CHECK_FALSE(longer.zero);
  CHECK(arena.free(longer.start));
  const Arena::Block aligned = arena.allocate(200 * kGranule, 64 * kGranule);
  CHECK(reinterpret_cast<std::uint64_t>(aligned.start) % (64 * kGranule) == 0);
  CHECK(aligned.lacking < 200 * kGranule);
  CHECK(arena.free(aligned.start));
  CHECK(arena.free(below));
  CHECK(arena.valid());
}

// bytearray and list: a block that grows in place, where there is memory behind it.
TEST_CASE_METHOD(ArenaFixture, "arena: a block that grows in place does so into memory at hand",
                 "[serve]") {
  std::uint64_t last = 0;
  for (int pass = 0; pass < 6; ++pass) {
    char* block = take(32 * kGranule);
    const std::uint64_t before = arena.held().purged_bytes();
    for (std::uint64_t count = 64; count <= 2048; count += 32) {
      CHECK(arena.resize(block, count * kGranule));
    }
    CHECK(arena.free(block));
    CHECK(arena.held().live_bytes() + arena.held().dirty_bytes() <= arena.held().peak_bytes());
    last = arena.held().purged_bytes() - before;
  }
  CHECK(last == 0);
}

}  // namespace
}  // namespace memo
