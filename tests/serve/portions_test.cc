// How much memory one call takes, and gives back.
#include <catch2/catch.hpp>
#include <vector>

#include "tests/support/arenas.h"
#include "tests/support/spaces.h"

namespace memo {
namespace {

using testing::ArenaFixture;
using testing::OwnSpace;

TEST_CASE_METHOD(ArenaFixture, "arena: a call gives back its bytes and some MiB", "[serve]") {
  std::vector<char*> blocks;
  for (int i = 0; i < 64; ++i) {
    blocks.push_back(take(kMiB));
  }
  for (std::size_t i = 0; i < blocks.size(); i += 2) {
    arena.free(blocks[i]);
  }
  arena.trim(kGranule);  // the peak is forgotten
  const std::uint64_t before = arena.held().purged_bytes();
  take(2 * kMiB);
  CHECK(arena.held().purged_bytes() - before >= 5 * kMiB);
  CHECK(arena.held().purged_bytes() - before <= 8 * kMiB);
}

TEST_CASE_METHOD(ArenaFixture, "arena: a call gives back in some dozens of pieces", "[serve]") {
  std::vector<char*> blocks;
  for (int i = 0; i < 2000; ++i) {
    blocks.push_back(take(kGranule));
  }
  for (std::size_t i = 0; i < blocks.size(); i += 2) {
    arena.free(blocks[i]);
  }
  arena.trim(kGranule);  // the peak is forgotten
  const std::uint64_t before = arena.held().purged_bytes();
  take(2 * kGranule);
  CHECK(arena.held().purged_bytes() - before >= 60 * kGranule);
  CHECK(arena.held().purged_bytes() - before <= 100 * kGranule);
}

TEST_CASE("space: some MiB more than is used are committed, and an eighth where that is more",
          "[serve]") {
  OwnSpace own{512 * kMiB};
  REQUIRE(own.space.commit(kMiB));
  CHECK(own.space.committed_bytes() >= 5 * kMiB);
  CHECK(own.space.committed_bytes() <= 8 * kMiB);
  REQUIRE(own.space.commit(160 * kMiB));
  CHECK(own.space.committed_bytes() >= 175 * kMiB);
  CHECK(own.space.committed_bytes() <= 190 * kMiB);
}

}  // namespace
}  // namespace memo
