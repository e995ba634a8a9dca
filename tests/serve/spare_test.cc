// The arena and a freed block that is not worth keeping.
#include <catch2/catch.hpp>
#include <cstring>

#include "tests/support/arenas.h"

namespace memo {
namespace {

using testing::ArenaFixture;

class SpareArena : public ArenaFixture {
 protected:
  SpareArena() { take(8 * kMiB); }
  // A block between two others, freed and offered; where it lay.
  char* spare(std::uint64_t bytes) {
    char* block = take(bytes);
    take(kMiB);
    CHECK(arena.free(block, false, true));
    CHECK(arena.held().dirty_bytes() == bytes);
    return block;
  }
};

TEST_CASE_METHOD(SpareArena, "arena: a spare block's place is the next one's, with its memory",
                 "[serve]") {
  const char* const place = spare(12 * kMiB);
  const std::uint64_t before = resident();
  const Arena::Block next = arena.allocate(12 * kMiB, 64);
  CHECK(next.start == place);
  CHECK(next.resident);
  CHECK(resident() == before);
  // It was spare once.
  CHECK(arena.free(next.start));
  CHECK(arena.allocate(kMiB, 64).resident);
  CHECK(resident() == before);
  CHECK(arena.valid());
}

TEST_CASE_METHOD(
    SpareArena, "arena: a spare block goes back before another comes, or what is left of it behind",
    "[serve]") {
  const char* const place = spare(12 * kMiB);
  const std::uint64_t before = resident();
  SECTION("one that would fill little of it") {
    const Arena::Block next = arena.allocate(5 * kMiB, 64);
    CHECK(next.lacking == 5 * kMiB);
    CHECK(resident() == before - 12 * kMiB);
  }
  SECTION("one that does not fit") {
    CHECK(arena.allocate(13 * kMiB, 64).lacking == 13 * kMiB);
    CHECK(resident() == before - 12 * kMiB);
  }
  SECTION("one that fills most of it") {
    const Arena::Block next = arena.allocate(7 * kMiB, 64);
    CHECK(next.start == place);
    CHECK(next.resident);
    CHECK(resident() == before - 5 * kMiB);
  }
  CHECK(arena.held().dirty_bytes() == 0);
  CHECK(arena.valid());
}

TEST_CASE_METHOD(SpareArena, "arena: of a spare block what was never written does not go back",
                 "[serve]") {
  arena.look();
  const Arena::Block block = arena.allocate(12 * kMiB, 64);
  std::memset(block.start, 1, 9 * kMiB);
  take(kMiB);
  CHECK(arena.free(block.start, false, true));
  CHECK(arena.held().dirty_bytes() == 9 * kMiB);
  const auto next = GENERATE(1ULL, 8ULL, 13ULL);  // elsewhere, in a part of it, too long for it
  CHECK(arena.allocate(next * kMiB, 64).start != nullptr);
  CHECK(arena.valid());
}

TEST_CASE_METHOD(SpareArena,
                 "arena: one block is spare at a time, and none that takes long to give back",
                 "[serve]") {
  char* first = take(12 * kMiB);
  char* second = take(12 * kMiB);
  char* long_one = take(65 * kMiB);
  for (char* block : {long_one, first, second}) {
    CHECK(arena.free(block, false, true));
  }
  CHECK(arena.allocate(kMiB, 64).resident);
  CHECK(arena.held().dirty_bytes() == 76 * kMiB);
  CHECK(arena.valid());
}

}  // namespace
}  // namespace memo
