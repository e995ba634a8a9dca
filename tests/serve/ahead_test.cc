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
  PageMap::Run take(std::uint64_t bytes) {
    const Granules first = top;
    top = top + granules_in(bytes);
    REQUIRE(space.pages.claim(first, granules_in(bytes)).granted);
    return ahead.take(space, window, kMuch, first, top);
  }
  void write(PageMap::Run run, std::uint64_t bytes) {
    std::memset(space.address(run.first), 1, bytes);
  }
  void free(std::uint64_t bytes) {
    space.pages.free(top - granules_in(bytes), PageMap::Left::kAll);
  }
};

TEST_CASE_METHOD(AheadFixture, "ahead: a window grows by what is written, to an end", "[serve]") {
  CHECK(window.room(kMuch) == tuning::kMaxUnwritten);
  for (const std::uint64_t expected : {4U, 8U, 16U, 16U}) {
    const PageMap::Run run = take(32 * kMiB);
    CHECK(bytes_of(run.count) == expected * kMiB);
    CHECK(window.room(kMuch) == 0);
    write(run, bytes_of(run.count));
  }
  CHECK(ahead.look(space, window) == 0);
  CHECK(window.room(kMuch) == tuning::kMostAhead);
  CHECK(window.room(kMuch / 20) == kMuch / 20 / tuning::kSmallPart);
  CHECK(window.room(kMiB) == tuning::kMaxUnwritten);
}

TEST_CASE_METHOD(AheadFixture, "ahead: nothing more is taken until what was taken is written",
                 "[serve]") {
  const PageMap::Run run = take(32 * kMiB);
  REQUIRE(run.found());
  write(run, bytes_of(run.count) / 2);
  for (int i = 0; i < 20; ++i) {
    CHECK_FALSE(take(2 * kMiB).found());
  }
  CHECK(ahead.look(space, window) == bytes_of(run.count));
  write(run, bytes_of(run.count));
  // The longer it was not written the more seldom it is looked at.
  int calls = 1;
  while (!take(2 * kMiB).found() && calls < 32) {
    ++calls;
  }
  CHECK(calls > 4);
  CHECK(calls <= 20);
}

TEST_CASE_METHOD(AheadFixture, "ahead: the spaces of a process share one window", "[serve]") {
  window.widen(12 * kMiB);
  CHECK(bytes_of(take(12 * kMiB).count) == 12 * kMiB);
  testing::OwnSpace other{64 * kMiB};
  REQUIRE(other.space.commit(63 * kMiB));
  Ahead beside;
  const auto take_beside = [&] {
    return bytes_of(
        beside.take(other.space, window, kMuch, Granules{0}, granules_in(32 * kMiB)).count);
  };
  CHECK(take_beside() == 4 * kMiB);
  CHECK(window.room(kMuch) == 0);
  ahead.forget(window);
  CHECK(window.room(kMuch) == 12 * kMiB);
  SECTION("and a child's is its own") {
    window.after_fork();
    CHECK(window.room(kMuch) == tuning::kMaxUnwritten);
    CHECK(take_beside() == 4 * kMiB);
    beside.forget(window);
    CHECK(window.room(kMuch) == tuning::kMaxUnwritten);
  }
}

TEST_CASE_METHOD(AheadFixture, "ahead: pages of zeros count as written where they are few",
                 "[serve]") {
  PageMap::Run run = take(32 * kMiB);
  write(run, bytes_of(run.count));
  std::memset(space.address(run.first), 0, 16 * kGranule);
  run = take(8 * kMiB);
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
  window.widen(12 * kMiB);
  const PageMap::Run run = take(16 * kMiB);
  REQUIRE(bytes_of(run.count) == 16 * kMiB);
  const bool part = GENERATE(false, true);
  free(16 * kMiB);
  SECTION("and has no memory any more, or only what was written: it is written") {
    if (part) {
      write(run, 3 * kMiB);
    }
    CHECK(ahead.look(space, window) == 0);
    CHECK(window.room(kMuch) == 16 * kMiB);
  }
  SECTION("and holds what was taken for it") {
    std::memset(space.address(run.first), 0, bytes_of(run.count) / (part ? 2 : 1));
    CHECK(ahead.look(space, window) == 16 * kMiB);
    window.settle(16 * kMiB);
    CHECK(window.room(kMuch) == 8 * kMiB);
    window.take(16 * kMiB);
    write(run, bytes_of(run.count));  // by another block
    CHECK(ahead.look(space, window) == 0);
  }
}

// A run whose memory was given back, and which is used again, would be ahead for ever.
TEST_CASE_METHOD(AheadFixture, "ahead: a place that is taken again is ahead once", "[serve]") {
  REQUIRE(take(32 * kMiB).found());
  const PageMap::Run again = ahead.take(space, window, kMuch, Granules{0}, top);
  CHECK(again.found());
  CHECK(window.room(kMuch) == 0);
  CHECK(ahead.look(space, window) == bytes_of(again.count));
}

// What the last block leaves of its last huge page is the next one's, which cannot have written it
// before it has it.
TEST_CASE_METHOD(AheadFixture, "ahead: what lies behind the last block is ahead, and waits",
                 "[serve]") {
  const auto next = [&](std::uint64_t bytes) {
    const Granules first = top;
    top = top + granules_in(bytes);
    REQUIRE(space.pages.claim(first, granules_in(bytes)).granted);
    return ahead.take(space, window, kMuch, first, round_up(top, kHugePage), first);
  };
  window.widen(12 * kMiB);
  const PageMap::Run run = next(3 * kMiB);
  CHECK(bytes_of(run.count) == 4 * kMiB);
  std::memset(space.address(run.first), 0, bytes_of(run.count));
  SECTION("until the next is there") {
    for (int i = 0; i < 12; ++i) {
      write({top - granules_in(3 * kMiB), {}}, 3 * kMiB);
      CHECK(bytes_of(next(3 * kMiB).count) == (i % 2 == 0 ? 2 : 4) * kMiB);
    }
  }
  SECTION("and keeps no room from others for long") {
    write(run, 3 * kMiB);
    for (int i = 0; i < 2; ++i) {
      CHECK(ahead.look(space, window, top) == 0);
      CHECK(window.room(kMuch) == 15 * kMiB);
    }
    CHECK(os::purge(space.address(run.first), bytes_of(run.count)));
    CHECK(ahead.look(space, window, top) == 0);
    CHECK(window.room(kMuch) == 16 * kMiB);
  }
  SECTION("and counts where the block has grown over it, or none begins there") {
    const bool grown = GENERATE(false, true);
    write(run, 3 * kMiB);
    top = run.end();
    if (grown) {
      REQUIRE(space.pages.extend(run.first, run.count).granted);
    }
    next(3 * kMiB);
    CHECK(ahead.look(space, window, top) >= 4 * kMiB);
  }
}

// What lies before a block that is taken again where memory was given back.
TEST_CASE_METHOD(AheadFixture, "ahead: what is left of a block stays ahead", "[serve]") {
  window.widen(12 * kMiB);
  REQUIRE(bytes_of(take(16 * kMiB).count) == 16 * kMiB);
  const PageMap::Run again = ahead.take(space, window, kMuch, granules_in(8 * kMiB), top);
  CHECK(bytes_of(again.count) == 8 * kMiB);
  CHECK(window.room(kMuch) == 0);
}

}  // namespace
}  // namespace memo
