// What may have memory without being written, and what is known of what is.
#include "src/serve/written.h"

#include <catch2/catch.hpp>
#include <cstring>

#include "src/base/resident.h"
#include "src/serve/pool.h"
#include "src/serve/shares.h"
#include "tests/support/arenas.h"
#include "tests/support/spaces.h"
#include "tests/support/units.h"

namespace memo {
namespace {

TEST_CASE("written: the bound is a share, and some MiB at most", "[serve]") {
  CHECK(may_lack(32 * kMiB) == 2 * kMiB);
  CHECK(may_lack(1024 * kMiB) == 4 * kMiB);
  CHECK(is_whole(16 * kMiB, 16 * kMiB));
  CHECK_FALSE(is_whole(16 * kMiB, 14 * kMiB));
  CHECK_FALSE(is_whole(1024 * kMiB, 1018 * kMiB));
}

TEST_CASE("written: what a freed block of some MiB does not hold is no memory of the pool",
          "[serve]") {
  testing::OwnSpace own{128 * kMiB};
  testing::OwnPool pool(&own.space);
  for (int i = 0; i < 3; ++i) {
    char* const block = static_cast<char*>(pool.allocate(32 * kMiB, 16, 0).start);
    REQUIRE(block != nullptr);
    std::memset(block, 1, kMiB);
    CHECK(pool.free(block, false));
    CHECK(pool.held().dirty_bytes() <= kMiB + bytes_of(16_g));
    CHECK(pool.valid());
  }
  // The peak is of what was written, too.
  pool.free(pool.allocate(kMiB / 2, 16, 0).start, false);
  CHECK(pool.held().peak_bytes() <= 2 * kMiB);
}

TEST_CASE("written: a block expects what the last of its size has held, if that was new",
          "[serve]") {
  Shares shares;
  CHECK(shares.expected(512_g) == 512_g);
  shares.note(512_g, 10_g, true);
  CHECK(shares.expected(512_g) == 10_g);
  shares.note(512_g, 40_g, false);  // earlier blocks may have written some
  CHECK(shares.expected(512_g) == 10_g);
  shares.note(512_g, 40_g, true);
  CHECK(shares.expected(512_g) == 40_g);
  const Expected expected(513_g, 10_g, true);
  CHECK(expected.fresh());
  CHECK(expected.of(513_g) >= 10_g);
  CHECK(Expected(513_g, 513_g, false).of(513_g) == 513_g);
}

TEST_CASE("written: the kernel tells which stretches have memory", "[base]") {
  constexpr std::uint64_t kBytes = 12 * kMiB;  // more than is asked for at once
  auto* const start = static_cast<char*>(os::map(kBytes));
  REQUIRE(start != nullptr);
  std::memset(start + kMiB, 1, 7 * kMiB);
  os::Residents memory(start, kBytes);
  std::uint64_t at = 0;
  std::uint64_t there = 0;
  int stretches = 0;
  for (os::Residents::Stretch stretch; memory.next(stretch); ++stretches) {
    CHECK(stretch.start == start + at);
    at += stretch.bytes;
    there += stretch.there ? stretch.bytes : 0;
  }
  CHECK(memory.told());
  CHECK(at == kBytes);
  CHECK(there == 7 * kMiB);
  CHECK(stretches == 3);
  os::unmap(start, kBytes);
}

}  // namespace
}  // namespace memo
