// What comes in huge pages before it is written: how much, and what that depends on.
#include "src/serve/ahead.h"

#include <catch2/catch.hpp>
#include <cstring>

#include "src/base/os.h"
#include "tests/support/spaces.h"
#include "tests/support/units.h"

namespace memo {
namespace {

constexpr std::uint64_t kMuch = 1024 * kMiB;  // alive

struct AheadFixture {
  testing::OwnSpace own{256 * kMiB};
  Space& space = own.space;
  AheadWindow window;
  Ahead ahead;
  Granules top;

  AheadFixture() { REQUIRE(space.commit(255 * kMiB)); }
  // A block behind all others, and what of it is ahead.
  PageMap::Run take(std::uint64_t bytes, std::uint64_t alive = kMuch) {
    const Granules first = top;
    top = top + granules_in(bytes);
    REQUIRE(space.pages.claim(first, granules_in(bytes)).granted);
    return ahead.take(space, window, alive, first, top);
  }
  void write(PageMap::Run run, std::uint64_t bytes) {
    std::memset(space.address(run.first), 1, bytes);
  }
  void free(std::uint64_t bytes) {
    space.pages.free(top - granules_in(bytes), PageMap::Left::kAll);
  }
};

TEST_CASE_METHOD(AheadFixture, "ahead: a window grows by what is written, to an end", "[serve]") {
  CHECK(window.size(kMuch) == tuning::kMaxUnwritten);
  std::uint64_t written = 0;
  for (const std::uint64_t expected : {4U, 8U, 16U}) {
    const PageMap::Run run = take(32 * kMiB);
    CHECK(bytes_of(run.count) == expected * kMiB);
    write(run, bytes_of(run.count));
    written += bytes_of(run.count);
  }
  take(2 * kMiB);
  CHECK(window.size(kMuch) == tuning::kMaxUnwritten + written);
  CHECK(window.size(kMuch / 20) == kMuch / 20 / tuning::kSmallPart);
  CHECK(window.size(kMiB) == tuning::kMaxUnwritten);
  window.widen(kMuch);
  CHECK(window.size(kMuch) == tuning::kMostAhead);
}

TEST_CASE_METHOD(AheadFixture, "ahead: nothing more is taken until what was taken is written",
                 "[serve]") {
  const PageMap::Run run = take(32 * kMiB);
  REQUIRE(run.found());
  CHECK_FALSE(take(32 * kMiB).found());
  write(run, bytes_of(run.count) / 2);
  CHECK_FALSE(take(32 * kMiB).found());
  CHECK(ahead.look(space, window) == bytes_of(run.count));
  write(run, bytes_of(run.count));
  CHECK(take(32 * kMiB).found());
}

TEST_CASE_METHOD(AheadFixture, "ahead: pages of zeros count as written where they are few",
                 "[serve]") {
  PageMap::Run run = take(32 * kMiB);
  write(run, bytes_of(run.count));
  std::memset(space.address(run.first), 0, 16 * kGranule);
  run = take(32 * kMiB);
  REQUIRE(run.found());
  // A number here and there is enough, as an activation leaves them.
  std::memset(space.address(run.first), 0, bytes_of(run.count));
  for (std::uint64_t at = 3 * kGranule / 4; at < bytes_of(run.count); at += kGranule) {
    space.address(run.first)[at + 63] = 1;
  }
  CHECK(take(32 * kMiB).found());
}

TEST_CASE_METHOD(AheadFixture, "ahead: a window halves where a freed block was not written",
                 "[serve]") {
  window.widen(28 * kMiB);
  const PageMap::Run run = take(32 * kMiB);
  REQUIRE(bytes_of(run.count) == 32 * kMiB);
  free(32 * kMiB);
  SECTION("and has no memory any more: nothing is known") {
    CHECK(take(64 * kMiB).found());
    CHECK(window.size(kMuch) == 32 * kMiB);
  }
  SECTION("and holds what was taken for it") {
    std::memset(space.address(run.first), 0, bytes_of(run.count));
    CHECK_FALSE(take(64 * kMiB).found());
    CHECK(window.size(kMuch) == 16 * kMiB);
    write(run, bytes_of(run.count));  // by another block
    CHECK(take(64 * kMiB).found());
  }
}

// A run whose memory was given back, and which is used again, would be ahead for ever.
TEST_CASE_METHOD(AheadFixture, "ahead: a place that is taken again is ahead once", "[serve]") {
  REQUIRE(take(32 * kMiB).found());
  const PageMap::Run again = ahead.take(space, window, kMuch, Granules{0}, top);
  CHECK(again.found());
  CHECK(ahead.look(space, window) == bytes_of(again.count));
}

}  // namespace
}  // namespace memo
