// A slab's heights, its part of the limit, and what it gives back.
#include "src/serve/slab.h"

#include <sys/resource.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <thread>
#include <vector>

#include "src/base/os.h"
#include "tests/support/arenas.h"
#include "tests/support/process.h"
#include "tests/support/spaces.h"
#include "tests/support/units.h"

namespace memo {
namespace {

struct Fixture {
  explicit Fixture(std::uint64_t limit = 8 * kMiB, std::uint64_t room = 64 * kMiB)
      : first_space(room), second_space(room) {
    books.limit = limit;
    books.huge_pages = Choice::kNever;
    first.open(&first_space.space, &books, &pool);
    second.open(&second_space.space, &books, &pool);
  }
  testing::OwnSpace pool_space{64 * kMiB};
  testing::OwnSpace first_space;
  testing::OwnSpace second_space;
  SlabBooks books;
  testing::OwnPool pool{&pool_space.space};
  Slab first;
  Slab second;
};

struct WideFixture : Fixture {
  WideFixture() : Fixture(256 * kMiB, 512 * kMiB) {}
};

TEST_CASE_METHOD(Fixture, "slab: all slabs have one limit, and a refusal costs nothing of it",
                 "[serve]") {
  CHECK(first.raise(6 * kMiB) == Slab::Raised::kTallest);
  CHECK(second.raise(3 * kMiB) == Slab::Raised::kRefused);
  CHECK(books.bytes == 6 * kMiB);
  CHECK(second.height() == 0);
  CHECK(first.raise(5 * kMiB) == Slab::Raised::kEnough);
  first.trim(5 * kMiB);
  CHECK(second.raise(3 * kMiB) == Slab::Raised::kTallest);
  CHECK(books.bytes == 8 * kMiB);
  CHECK(first.give_back());
  CHECK_FALSE(first.give_back());
  CHECK(books.bytes == 3 * kMiB);
  CHECK(first.raise(4 * kMiB) == Slab::Raised::kTaller);
  CHECK(first.tallest() == 6 * kMiB);
  CHECK(first.valid());
  CHECK(second.valid());
}

TEST_CASE_METHOD(Fixture,
                 "slab: what was not asked for in two windows of time goes, what is in use stays",
                 "[serve]") {
  Nanos window;
  const auto age = [&] {
    window += 6 * tuning::kAtRest;
    first.age(window);
  };
  REQUIRE(first.raise(6 * kMiB) == Slab::Raised::kTallest);
  std::memset(first.at(0), 1, 6 * kMiB);
  age();
  REQUIRE(first.claim(4 * kMiB, kMiB, 64).answer == SlabPlace::Answer::kGranted);
  CHECK(first.raise(2 * kMiB) == Slab::Raised::kEnough);
  age();
  CHECK(first.height() == 6 * kMiB);
  first.age(6 * tuning::kAtRest);  // it is no new window
  CHECK(first.height() == 6 * kMiB);
  age();
  CHECK(first.height() == 2 * kMiB);
  CHECK(books.bytes == 2 * kMiB);
  CHECK(os::resident_bytes(first.at(0), 6 * kMiB) == 3 * kMiB);
  age();
  CHECK(first.height() == 2 * kMiB);
  CHECK(first.valid());
}

// Room is made once where the system refuses; a refusal by the library's own limit is none of those.
TEST_CASE("slab: what the pool does not use makes room, also after a limit was in the way",
          "[serve]") {
  const bool limited = GENERATE(false, true);
  const int answer = testing::answer_of_child([limited] {
    Fixture own(limited ? kMiB : 64 * kMiB);
    for (void* const block :
         {own.pool.allocate(24 * kMiB, 16, 0).start, own.pool.allocate(8 * kMiB, 16, 0).start}) {
      own.pool.free(block, false);
    }
    if (limited && own.first.raise(16 * kMiB) != Slab::Raised::kRefused) {
      return 2;
    }
    own.books.limit = 64 * kMiB;
    const rlimit now = {testing::writable_bytes(), RLIM_INFINITY};
    setrlimit(RLIMIT_DATA, &now);
    return own.first.raise(16 * kMiB) == Slab::Raised::kTallest ? 0 : 1;
  });
  CHECK(answer == 0);
}

// A plan file may claim any height, and a limit may be the greatest number that there is.
TEST_CASE_METHOD(Fixture, "slab: no height is so great that it seems to be there already",
                 "[serve]") {
  books.limit = UINT64_MAX;
  for (std::uint64_t height = bytes_of(Granules{1}); height != 0; height *= 2) {
    CHECK(first.raise(0 - height) == Slab::Raised::kRefused);
  }
  CHECK(books.bytes == 0);
  CHECK(first.raise(6 * kMiB) == Slab::Raised::kTallest);
  CHECK(second.raise(0 - bytes_of(Granules{1})) == Slab::Raised::kRefused);
  CHECK(books.bytes == 6 * kMiB);
}

TEST_CASE_METHOD(WideFixture, "slab: what is free may be taken by the system, in several parts",
                 "[serve]") {
  constexpr std::uint64_t kHeight = 96 * kMiB;
  REQUIRE(first.raise(kHeight) == Slab::Raised::kTallest);
  std::memset(first.at(0), 1, kHeight);
  REQUIRE(first.claim(40 * kMiB, 8 * kMiB, 64).answer == SlabPlace::Answer::kGranted);
  const std::uint64_t before = testing::lazily_freed();
  Granules at;
  int parts = 0;
  for (; at != Space::kNone; ++parts) {
    at = first.free_lazily(at);
  }
  CHECK(parts == 2);
  CHECK(testing::lazily_freed() - before <= kHeight - 8 * kMiB);
  CHECK(testing::lazily_freed() - before >= kHeight - 20 * kMiB);
  CHECK(first.height() == kHeight);
  CHECK(os::resident_bytes(first.at(0), kHeight) == kHeight);
}

// As numpy does: of each array all but the first page, before anything is written.
TEST_CASE_METHOD(WideFixture, "slab: huge pages have no gaps where the program has advised parts",
                 "[serve]") {
  constexpr std::uint64_t kHeight = 18 * kMiB;
  constexpr std::uint64_t kBlock = kHeight / 4;
  if (!testing::collapses()) {
    return;
  }
  books.huge_pages = Choice::kAuto;
  REQUIRE(first.raise(kHeight) == Slab::Raised::kTallest);
  const std::uint64_t before = testing::in_huge_pages();
  for (std::uint64_t at = 0; at < kHeight; at += kBlock) {
    REQUIRE(os::advise_huge(first.at(at) + bytes_of(1_g), kBlock - bytes_of(2_g), true));
    std::memset(first.at(at), 1, kBlock);
  }
  CHECK(testing::in_huge_pages() - before < kHeight);
  first.sweep();
  first.sweep();
  CHECK(testing::in_huge_pages() - before == kHeight);
}

TEST_CASE_METHOD(Fixture, "slab: one word tells who holds it, and for which plan", "[serve]") {
  const std::uint64_t nobody = first.word();
  const std::uint64_t mine = SlabWord::held(3, 7);
  CHECK(SlabWord::is_free(nobody));
  CHECK_FALSE(SlabWord::is_free(mine));
  CHECK(SlabWord::lane(mine) == 3);
  CHECK(SlabWord::plan(mine) == 7);
  CHECK(first.change(nobody, mine));
  CHECK_FALSE(first.change(nobody, SlabWord::held(4, 7)));
  CHECK(first.word() == mine);
  first.want_deaths(true);
  first.let_go(5 * os::kSecond);
  CHECK(first.is_free());
  CHECK(SlabWord::lane(first.word()) == 3);
  CHECK(SlabWord::plan(first.word()) == 7);
  CHECK_FALSE(first.wants_deaths());
  CHECK_FALSE(first.unused_for(2 * os::kSecond, 7 * os::kSecond - 1 * os::kMillisecond));
  CHECK(first.unused_for(2 * os::kSecond, 7 * os::kSecond));
  CHECK(first.unused_for(Nanos{0}, 5 * os::kSecond));  // where memory is short
}

TEST_CASE_METHOD(Fixture, "slab: whose holder does not exist begins without memory", "[serve]") {
  REQUIRE(first.change(first.word(), SlabWord::held(3, 7)));
  REQUIRE(first.raise(2 * kMiB) == Slab::Raised::kTallest);
  std::memset(first.at(0), 1, first.height());
  first.orphan();
  CHECK(first.is_free());
  CHECK(first.height() == 2 * kMiB);
  CHECK(first.change(first.word(), SlabWord::held(4, 8)));
  CHECK(first.word() == SlabWord::held(4, 8));
  CHECK(first.height() == 0);
  CHECK(books.bytes == 0);
  CHECK(os::resident_bytes(first.at(0), 2 * kMiB) == 0);
}

TEST_CASE_METHOD(Fixture, "slab: a plan may begin above the blocks that are in it", "[serve]") {
  REQUIRE(first.raise(4 * kMiB) == Slab::Raised::kTallest);
  REQUIRE(first.claim(kMiB, kMiB, 64).answer == SlabPlace::Answer::kGranted);
  char* const old = first.at(kMiB);
  *old = 'x';
  first.begin_above();
  CHECK(first.height() == 0);
  REQUIRE(first.raise(3 * kMiB) != Slab::Raised::kRefused);
  CHECK(first.at(0) == first.space().base() + 2 * kMiB);
  CHECK(first.claim(0, 3 * kMiB, 64).answer == SlabPlace::Answer::kGranted);
  CHECK(*old == 'x');
  CHECK(first.valid());
  char* const above = first.at(0);
  std::memset(above, 1, first.height());
  CHECK(first.space().pages.free(first.space().granule_of(above)) != 0_g);
  CHECK(first.give_back());
  CHECK(first.at(0) == first.space().base());
  CHECK(os::resident_bytes(above, 3 * kMiB) == 0);
  CHECK(*old == 'x');
}

TEST_CASE_METHOD(Fixture, "slab: what is in use keeps its bytes while the rest goes", "[serve]") {
  REQUIRE(first.raise(4 * kMiB) == Slab::Raised::kTallest);
  std::memset(first.at(0), 1, first.height());
  CHECK(os::resident_bytes(first.at(0), kMiB) == kMiB);
  const std::uint64_t offset = 2 * kMiB;
  REQUIRE(first.claim(offset, kMiB / 2, 64).answer == SlabPlace::Answer::kGranted);
  *first.at(offset) = 'x';
  CHECK(first.claim(offset, kGranule, 64).answer == SlabPlace::Answer::kOccupied);
  CHECK(first.claim(offset + kGranule, kGranule, kMiB).answer == SlabPlace::Answer::kMisaligned);
  first.trim(kMiB);
  CHECK(*first.at(offset) == 'x');
  CHECK(os::resident_bytes(first.at(3 * kMiB), kMiB) == 0);
  CHECK(os::resident_bytes(first.at(0), kMiB) == kMiB);
  first.give_back();
  CHECK(*first.at(offset) == 'x');
  CHECK(os::resident_bytes(first.at(0), kMiB) == 0);
  CHECK(first.space().pages.free(granules_in(offset)) != 0_g);
  CHECK(first.valid());
}

std::uint64_t resident(const char* start) {  // bytes of 2 MiB
  return testing::resident_bytes(start, 2 * kMiB);
}

TEST_CASE_METHOD(Fixture,
                 "slab: a last huge page that lacks little comes as a whole, and goes as one",
                 "[serve]") {
  books.huge_pages = Choice::kAuto;
  const bool little = GENERATE(true, false);
  const std::uint64_t height = 2 * os::kHugePage - (little ? 3 * kMiB / 16 : 3 * kMiB / 8);
  REQUIRE(first.raise(height) == Slab::Raised::kTallest);
  const char* const last = first.at(os::kHugePage);
  *first.at(height - 1) = 'x';
  CHECK(resident(last) == os::page_size());
  std::memset(first.at(0), 1, height);
  first.sweep();
  CHECK(resident(last) == height - os::kHugePage);
  first.sweep();
  CHECK(resident(last) == (little ? os::kHugePage : height - os::kHugePage));
  SECTION("with what is not used") {
    first.give_back_unused();
  }
  SECTION("with a lower height") {
    first.trim(kMiB);
  }
  CHECK(resident(last) == 0);
  CHECK(first.valid());
}

TEST_CASE_METHOD(WideFixture, "slab: of what is written in part no two iterations' parts stay",
                 "[serve]") {
  constexpr std::uint64_t kHeight = 32 * kMiB;
  constexpr std::uint64_t kWritten = 3 * kMiB;
  REQUIRE(first.raise(kHeight) == Slab::Raised::kTallest);
  for (std::uint64_t i = 0; i < 10; ++i) {
    REQUIRE(first.claim(0, kHeight, 16).answer == SlabPlace::Answer::kGranted);
    if (i % 3 == 0) {  // an iteration has the place three times
      first.sweep(0, kHeight);
    }
    if (first.attentive()) {
      first.attend(0, kHeight);
    }
    std::memset(first.at(i * kWritten), 1, kWritten);
    // But in the iteration after the look that tells how much is written.
    const bool after_look = i / 3 == 1;
    CHECK(testing::resident_bytes(first.at(0), kHeight) <= (after_look ? 4 : 1) * kWritten);
    first.space().pages.free(first.space().granule_of(first.at(0)));
  }
}

TEST_CASE_METHOD(WideFixture, "slab: what is written further from some iteration on stays",
                 "[serve]") {
  constexpr std::uint64_t kHeight = 24 * kMiB;
  REQUIRE(first.raise(kHeight) == Slab::Raised::kTallest);
  int kept = 0;
  for (int i = 0; i < 40; ++i) {
    REQUIRE(first.claim(0, kHeight, 16).answer == SlabPlace::Answer::kGranted);
    first.sweep(0, kHeight);
    if (first.attentive()) {
      first.attend(0, kHeight);
    }
    const std::uint64_t mib = i < 5 ? 4 : i % 2 == 0 ? 8 : 12;
    kept += testing::resident_bytes(first.at(0), kHeight) == 12 * kMiB ? 1 : 0;
    std::memset(first.at(0), 1, mib * kMiB);
    first.space().pages.free(first.space().granule_of(first.at(0)));
  }
  CHECK(kept >= 28);
}

TEST_CASE_METHOD(WideFixture,
                 "slab: memory that the process gives up elsewhere is none of a slab's",
                 "[serve]") {
  constexpr std::uint64_t kHeight = 24 * kMiB;
  std::vector<char> elsewhere(256 * kMiB, 1);
  REQUIRE(first.raise(kHeight) == Slab::Raised::kTallest);
  std::uint64_t most = 0;
  for (std::uint64_t i = 0; i < 12; ++i) {
    REQUIRE(first.claim(0, kHeight, 16).answer == SlabPlace::Answer::kGranted);
    first.sweep(0, kHeight);
    if (first.attentive()) {
      first.attend(0, kHeight);
    }
    std::memset(first.at(i * 2 * kMiB), 1, 2 * kMiB);
    most = std::max(most, testing::resident_bytes(first.at(0), kHeight));
    first.space().pages.free(first.space().granule_of(first.at(0)));
    if (i == 1) {
      elsewhere = std::vector<char>();
    }
  }
  CHECK(most <= 8 * kMiB);
}

TEST_CASE_METHOD(WideFixture, "slab: a large place of which another part is written begins empty",
                 "[serve]") {
  constexpr std::uint64_t kHeight = 64 * kMiB;
  REQUIRE(first.raise(kHeight) == Slab::Raised::kTallest);
  for (const std::uint64_t mib : std::vector<std::uint64_t>{40, 10, 20, 30, 63, 5}) {
    REQUIRE(first.claim(0, kHeight, 16).answer == SlabPlace::Answer::kGranted);
    first.sweep(0, kHeight);
    if (first.attentive()) {
      first.attend(0, kHeight);
    }
    std::memset(first.at(0), 1, mib * kMiB);
    CHECK((mib > 5 || testing::resident_bytes(first.at(0), kHeight) == 5 * kMiB));
    first.space().pages.free(first.space().granule_of(first.at(0)));
  }
}

// A child is forked while another thread gives the slab back, which takes a call for each of its
// pieces.
TEST_CASE_METHOD(WideFixture,
                 "slab: a child that finds one half given back has its places within its memory",
                 "[serve]") {
  constexpr Granules kAll = granules_in(64 * kMiB);
  REQUIRE(first.raise(kMiB) == Slab::Raised::kTallest);
  REQUIRE(first.claim(0, kMiB, 64).answer == SlabPlace::Answer::kGranted);
  first.begin_above();
  CHECK(first.space().pages.free(0_g) != 0_g);
  REQUIRE(first.raise(bytes_of(kAll)) == Slab::Raised::kTallest);
  std::memset(first.at(0), 1, first.height());
  const auto each_other = [&](auto&& function) {
    for (Granules at; at < kAll; at += Granules{2}) {
      function(bytes_of(at));
    }
  };
  each_other([&](std::uint64_t offset) { first.claim(offset, kGranule, 64); });
  each_other([&](std::uint64_t offset) { first.claim(offset + kGranule, kGranule, 64); });
  const Granules origin = first.space().granule_of(first.at(0));
  each_other([&](std::uint64_t offset) { first.space().pages.free(origin + granules_in(offset)); });
  std::thread other([&] { first.give_back(); });
  while (first.height() != 0) {
  }
  const int status = testing::status_of_child([&] {
    const bool has_memory = first.raise(8 * kMiB) != Slab::Raised::kRefused;
    const bool placed = first.claim(0, kMiB, 64).answer == SlabPlace::Answer::kGranted;
    std::memset(first.at(0), 1, placed ? kMiB : 0);
    return has_memory && placed && first.at(0) == first.space().base() ? 7 : 1;
  });
  other.join();
  CHECK(status == 7 << 8);
}

TEST_CASE_METHOD(WideFixture,
                 "slab: a call that takes one gives back its height and some dozen MiB",
                 "[serve]") {
  testing::OwnSpace large{512 * kMiB};
  testing::OwnPool full{&large.space};
  Slab slab;
  slab.open(&second_space.space, &books, &full);
  for (int i = 0; i < 2; ++i) {  // the pool keeps what the same part was written of twice
    const Arena::Block block = full.allocate(400 * kMiB, 64, 0);
    REQUIRE(block.start != nullptr);
    std::memset(block.start, 1, 128 * kMiB);
    full.free(block.start, false);
  }
  const std::uint64_t height = GENERATE(4 * kMiB, 32 * kMiB);
  REQUIRE(slab.raise(height) == Slab::Raised::kTallest);
  // One that is little, as an inner loop's, leaves the pool what the loops around it need.
  const bool little = height < 128 * kMiB / tuning::kSmallPart;
  CHECK(full.held().purged_bytes() >= (little ? 0 : 60 * kMiB));
  CHECK(full.held().purged_bytes() <= (little ? height : 100 * kMiB));
}

TEST_CASE_METHOD(Fixture, "slab: what the pool does not use goes before a slab comes", "[serve]") {
  const Arena::Block block = pool.allocate(8 * kMiB, 64, 0);
  REQUIRE(block.start != nullptr);
  std::memset(block.start, 1, 8 * kMiB);
  pool.free(block.start, false);
  CHECK(os::resident_bytes(block.start, kMiB) == kMiB);
  REQUIRE(first.raise(4 * kMiB) == Slab::Raised::kTallest);
  CHECK(pool.spaces().front().committed_bytes() < 8 * kMiB);
}

}  // namespace
}  // namespace memo
