// The pool where a block grows elsewhere.
#include <catch2/catch.hpp>
#include <cstring>

#include "src/serve/pool.h"
#include "tests/support/arenas.h"

namespace memo {
namespace {

struct CarryingPool {
  testing::OwnSpace own{64 << 20};
  testing::OwnPool pool{&own.space};

  char* take(std::uint64_t bytes) {
    auto* start = static_cast<char*>(pool.allocate(bytes, 16, 0).start);
    REQUIRE(start != nullptr);
    return start;
  }
};

TEST_CASE_METHOD(CarryingPool, "pool: a block that is carried elsewhere is not there twice",
                 "[serve]") {
  char* const small = take(3 * kMiB);
  std::memset(small, 9, 3 * kMiB);
  char* const large = take(4 * kMiB);
  CHECK(pool.held().peak_bytes() == 7 * kMiB);
  REQUIRE(pool.carry(small, large, 3 * kMiB));
  REQUIRE(pool.free_bare(small));
  CHECK(testing::resident_bytes(own.space.base(), 32 << 20) == 3 * kMiB);
  CHECK(large[0] == 9);
  CHECK(std::memcmp(large, large + 1, 3 * kMiB - 1) == 0);
  // No more may be kept than was held.
  CHECK(pool.held().peak_bytes() == 4 * kMiB);
  CHECK(pool.held().dirty_bytes() == 0);
  CHECK(pool.valid());
  // The place is free for another, and its memory is known to be zeros.
  const Arena::Block again = pool.allocate(kMiB, 16, 0);
  CHECK(again.start == small);
  CHECK(again.zero);
  CHECK(*small == 0);
}

TEST_CASE_METHOD(CarryingPool,
                 "pool: a block is only copied where that is not the peak, or memory is at hand",
                 "[serve]") {
  const bool at_hand = GENERATE(true, false);
  if (!at_hand) {
    char* const before = take(16 * kMiB);
    std::memset(before, 1, 16 * kMiB);
    REQUIRE(pool.free(before, true));
  }
  char* const small = take(3 * kMiB);
  std::memset(small, 9, 3 * kMiB);
  char* const large = take(4 * kMiB);
  if (at_hand) {
    std::memset(large, 1, 4 * kMiB);
  }
  const std::uint64_t peak = pool.held().peak_bytes();
  CHECK_FALSE(pool.carry(small, large, 3 * kMiB));
  CHECK(std::memcmp(small, large, 3 * kMiB) == 0);
  CHECK(large[3 * kMiB - 1] == 9);
  CHECK(pool.held().peak_bytes() == peak);
}

}  // namespace
}  // namespace memo
