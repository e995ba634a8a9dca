// What may have memory without being written, and what is known of what is.
#include "src/serve/written.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <vector>

#include "src/base/resident.h"
#include "src/serve/pool.h"
#include "src/serve/shares.h"
#include "tests/support/arenas.h"
#include "tests/support/process.h"
#include "tests/support/spaces.h"
#include "tests/support/units.h"

namespace memo {
namespace {

using testing::ArenaFixture;

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

TEST_CASE("arena: a block that writes other pages each time finds none of the earlier ones",
          "[serve]") {
  testing::OwnSpace own{1024 * kMiB};
  testing::OwnPool pool{&own.space};
  constexpr std::uint64_t kWritten = 2 * kMiB;
  for (std::uint64_t i = 0; i < 12; ++i) {
    char* const block = static_cast<char*>(pool.allocate(32 * kMiB, 16, 0).start);
    REQUIRE(block != nullptr);
    std::memset(block + i * kWritten, 1, kWritten);
    // Once it is seen that they are others, the second time, what is there is one iteration's.
    CHECK(testing::resident_bytes(block, 32 * kMiB) <= (i < 3 ? 2 : 1) * kWritten);
    CHECK(pool.free(block, false));
    CHECK(pool.valid());
  }
}

// A block of 4 MiB is written up to its third; then one lies where only the last 2 MiB have memory.
TEST_CASE("arena: a block that writes its first pages keeps them, whatever lay behind them",
          "[serve]") {
  testing::OwnSpace own{128 * kMiB};
  testing::OwnPool pool{&own.space};
  constexpr std::uint64_t kWritten = 3 * kMiB;
  const auto take = [&](std::uint64_t bytes, std::uint64_t written) {
    char* const block = static_cast<char*>(pool.allocate(bytes, 16, 0).start);
    REQUIRE(block != nullptr);
    std::memset(block, 1, written);
    return block;
  };
  const bool spare_memory = GENERATE(true, false);
  CHECK(pool.free(take(4 * kMiB, kWritten), false));
  pool.trim();
  if (spare_memory) {
    CHECK(pool.free(take(32 * kMiB, 32 * kMiB), true));  // raises the peak
  }
  char* const first = take(2 * kMiB, 2 * kMiB);
  char* const last = take(2 * kMiB, 2 * kMiB);
  char* const wall = take(kMiB / 2, kMiB / 2);
  REQUIRE((last == first + 2 * kMiB && wall == last + 2 * kMiB));
  CHECK(pool.free(first, true));
  if (!spare_memory) {
    pool.trim();  // forgets the peak
  }
  CHECK(pool.free(last, false));
  for (int i = 0; i < 3; ++i) {
    char* const block = take(4 * kMiB, 0);
    REQUIRE((block == first));
    CHECK(testing::resident_bytes(block, kWritten) == (i == 0 ? kMiB : kWritten));
    // What it will not write stays within the peak, and goes beyond it.
    CHECK(testing::resident_bytes(block + kWritten, kMiB) == (spare_memory ? kMiB : 0));
    std::memset(block, 1, kWritten);
    CHECK(pool.free(block, false));
    CHECK(pool.valid());
  }
}

TEST_CASE("arena: a large block of which another part is written each time leaves nothing",
          "[serve]") {
  testing::OwnSpace own{1024 * kMiB};
  testing::OwnPool pool{&own.space};
  const auto use = [&](std::uint64_t bytes, std::uint64_t written, std::uint64_t from = 0) {
    char* const block = static_cast<char*>(pool.allocate(bytes, 16, 0).start);
    REQUIRE(block != nullptr);
    std::memset(block + from, 1, written);
    CHECK(pool.free(block, false));
    CHECK(pool.valid());
  };
  for (const std::uint64_t mib : std::vector<std::uint64_t>{50, 30, 58, 12}) {
    use(64 * kMiB, mib * kMiB);
    CHECK(pool.held().dirty_bytes() == 0);
  }
  use(64 * kMiB, 12 * kMiB);  // as the last one
  CHECK(pool.held().dirty_bytes() == 12 * kMiB);
  pool.trim();
  use(64 * kMiB, 12 * kMiB, 20 * kMiB);  // as much, elsewhere
  CHECK(pool.held().dirty_bytes() == 0);
  use(64 * kMiB, 63 * kMiB, kMiB);
  use(64 * kMiB, 63 * kMiB, kMiB);  // hardly a part is missing
  CHECK(pool.held().dirty_bytes() >= 63 * kMiB);
  pool.trim();
  pool.trim();
  use(31 * kMiB, 31 * kMiB);
  use(31 * kMiB, 20 * kMiB);
  CHECK(pool.held().dirty_bytes() == 31 * kMiB);
}

TEST_CASE("arena: gaps that are too short to count cost no memory that is there", "[serve]") {
  testing::OwnSpace own{128 * kMiB};
  testing::OwnPool pool{&own.space};
  for (int i = 0; i < 8; ++i) {
    char* const block = static_cast<char*>(pool.allocate(16 * kMiB, 16, 0).start);
    REQUIRE(block != nullptr);
    CHECK((i < 2 || testing::resident_bytes(block, 16 * kMiB) == 2 * kMiB));
    for (std::uint64_t at = 0; at < 16 * kMiB; at += 8 * kGranule) {
      block[at] = 1;
    }
    CHECK(pool.free(block, false));
    CHECK(pool.valid());
  }
}

TEST_CASE("arena: a block whose pages move no more keeps them", "[serve]") {
  testing::OwnSpace own{128 * kMiB};
  testing::OwnPool pool{&own.space};
  int kept = 0;
  for (int i = 0; i < 40; ++i) {
    char* const block = static_cast<char*>(pool.allocate(8 * kMiB, 16, 0).start);
    REQUIRE(block != nullptr);
    kept += testing::resident_bytes(block, 8 * kMiB) == 4 * kMiB ? 1 : 0;
    const std::uint64_t written = (i == 0 ? 1 : 2) * kMiB;
    std::memset(block, 1, written);
    std::memset(block + 4 * kMiB, 1, written);
    CHECK(pool.free(block, false));
    CHECK(pool.valid());
  }
  CHECK(kept >= 34);
}

TEST_CASE("arena: a buffer that is cut off to what came in takes nothing from others", "[serve]") {
  testing::OwnSpace own{256 * kMiB};
  testing::OwnPool pool{&own.space};
  const auto take = [&](std::uint64_t bytes, std::uint64_t written) {
    char* const block = static_cast<char*>(pool.allocate(bytes, 16, 0).start);
    REQUIRE(block != nullptr);
    std::memset(block, 1, written);
    return block;
  };
  std::vector<char*> others;
  for (int i = 0; i < 40; ++i) {
    others.push_back(take(kMiB, kMiB));
    take(kMiB / 16, kMiB / 16);  // lives between them
  }
  for (char* const other : others) {
    CHECK(pool.free(other, false));
  }
  for (int i = 0; i < 4; ++i) {
    char* const buffer = take(64 * kMiB, kMiB);
    CHECK(pool.resize(buffer, kMiB));
    CHECK(pool.free(buffer, false));
    if (i == 0) {
      for (char*& other : others) {
        other = take(kMiB, kMiB);
      }
      for (char* const other : others) {
        CHECK(pool.free(other, false));
      }
    }
    CHECK((i == 0 || pool.held().dirty_bytes() >= 40 * kMiB));
    CHECK(pool.valid());
  }
}

// An arena that is filled from its start, each time to another end.
TEST_CASE("arena: a block that is written further than the last one finds that one's pages",
          "[serve]") {
  testing::OwnSpace own{1024 * kMiB};
  testing::OwnPool pool{&own.space};
  void* const peak = pool.allocate(24 * kMiB, 16, 0).start;
  std::memset(peak, 1, 24 * kMiB);
  CHECK(pool.free(peak, true));  // its memory goes
  std::uint64_t there = 0;
  for (const std::uint64_t mib : std::vector<std::uint64_t>{5, 2, 7, 3, 9, 4, 9, 6}) {
    char* const block = static_cast<char*>(pool.allocate(16 * kMiB, 16, 0).start);
    REQUIRE(block != nullptr);
    CHECK(testing::resident_bytes(block, 16 * kMiB) == there);
    std::memset(block, 1, mib * kMiB);
    there = std::max(there, mib * kMiB);
    CHECK(pool.free(block, false));
    CHECK(pool.valid());
  }
}

// A server's requests, each in a buffer of its own.
TEST_CASE("arena: a buffer that is filled to any end keeps its pages, though its size changes",
          "[serve]") {
  const std::uint64_t seed = GENERATE(from_range(testing::seeds(3)));
  INFO("seed " << seed);
  testing::Random random(seed);
  testing::OwnSpace own{64 * kMiB};
  testing::OwnPool pool{&own.space};
  constexpr std::uint64_t kCalls = 1600;
  std::uint64_t most = 0;
  std::uint64_t faulted = 0;
  for (std::uint64_t call = 0; call < kCalls; ++call) {
    const std::uint64_t size = 4 * kMiB + testing::below(random, 2) * kGranule;
    const std::uint64_t filled = (50 + testing::below(random, 250)) * kGranule;
    char* const block = static_cast<char*>(pool.allocate(size, 16, 0).start);
    REQUIRE(block != nullptr);
    faulted += filled - testing::resident_bytes(block, filled);
    std::memset(block, 1, filled);
    CHECK(pool.free(block, false));
    most = std::max(most, filled);
    CHECK(testing::resident_bytes(own.space.base(), 8 * kMiB) <= most + may_lack(most));
  }
  CHECK(pool.valid());
  CHECK(faulted < kCalls * 5 * kGranule);  // of 175 in the mean
}

// The sizes of an encoder: a buffer and a tree that are hardly written, around a table that is.
TEST_CASE("arena: a block that is hardly written leaves the memory of others to them", "[serve]") {
  testing::OwnSpace own{1024 * kMiB};
  testing::OwnPool pool{&own.space};
  struct Part {
    std::uint64_t bytes, written;
    char* start;
  };
  Part parts[] = {
      {96 * kMiB, kMiB, nullptr}, {64 * kMiB, 64 * kMiB, nullptr}, {512 * kMiB, 8 * kMiB, nullptr}};
  for (int i = 0; i < 8; ++i) {
    std::uint64_t there = 0;
    for (Part& part : parts) {
      part.start = static_cast<char*>(pool.allocate(part.bytes, 16, 0).start);
      REQUIRE(part.start != nullptr);
      there += testing::resident_bytes(part.start, part.written);
      std::memset(part.start, 1, part.written);
    }
    CHECK((i < 2 || there >= 72 * kMiB));
    for (const Part& part : parts) {
      CHECK(pool.free(part.start, false));
    }
    CHECK(pool.valid());
  }
}

TEST_CASE("written: a size is taken to write other pages each time until a new block tells",
          "[serve]") {
  using Where = Shares::Where;
  Shares shares;
  CHECK(shares.of(512_g).where == Where::kUnknown);
  shares.note(512_g, 10_g, true, true);
  CHECK(shares.of(512_g).where == Where::kFirst);
  shares.note(512_g, 40_g, false, false);  // earlier blocks may have written some
  CHECK(shares.of(512_g).where == Where::kFirst);
  shares.note_moves(512_g);
  shares.note(512_g, 40_g, true, false);
  CHECK(shares.of(512_g).where == Where::kMoves);
  shares.note(512_g, 40_g, true, true);
  CHECK(shares.of(512_g).where == Where::kFirst);
  CHECK(shares.expected(512_g) == 40_g);
  shares.note(512_g, 40_g, true, false);
  CHECK(shares.of(512_g).where == Where::kUnknown);
}

TEST_CASE_METHOD(ArenaFixture, "arena: what is cut off a block keeps the memory that it had before",
                 "[serve]") {
  // A new block, written or not.
  char* const fresh = take(8 * kMiB);
  CHECK(arena.resize(fresh, 4 * kMiB));
  CHECK(arena.resize(fresh, 2 * kMiB));
  CHECK(arena.held().dirty_bytes() == 0);
  CHECK(resident() == 2 * kMiB);
  CHECK(arena.free(fresh));
  CHECK(arena.free(take(6 * kMiB)));
  // One of which 6 MiB were there before.
  const std::uint64_t size = GENERATE(6 * kMiB, 16 * kMiB);
  const Arena::Block block = arena.allocate(size, 16);
  REQUIRE(block.start == fresh);
  CHECK(arena.resize(block.start, kGranule));
  CHECK(arena.valid());
  CHECK(arena.held().dirty_bytes() == 6 * kMiB - kGranule);
  CHECK(resident() == 6 * kMiB);
  // It serves the next one, and raises no peak.
  const Arena::Block next = arena.allocate(5 * kMiB, 16);
  CHECK(next.resident);
  CHECK(arena.held().peak_bytes() == 6 * kMiB);
  CHECK(arena.free(next.start));
  arena.trim();
  CHECK(resident() == kGranule);
  CHECK(arena.valid());
}

TEST_CASE_METHOD(ArenaFixture, "arena: a block within the peak that is cut off does not lower it",
                 "[serve]") {
  CHECK(arena.free(take(16 * kMiB)));
  const auto cut = [this](std::uint64_t bytes, bool another) {
    const Arena::Block block = arena.allocate(bytes, 16);
    char* const beside = another ? take(18 * kMiB) : nullptr;
    CHECK(arena.resize(block.start, kGranule));
    CHECK(arena.free(block.start));
    CHECK((beside == nullptr || arena.free(beside)));
    CHECK(arena.free(take(kGranule)));
    return arena.held().peak_bytes();
  };
  CHECK(cut(6 * kMiB, false) == 16 * kMiB);
  CHECK(cut(20 * kMiB, false) == 16 * kMiB);
  CHECK(cut(4 * kMiB, true) == 18 * kMiB + kGranule);  // it has raised another one's
  CHECK(arena.valid());
}

TEST_CASE_METHOD(ArenaFixture, "arena: what others have mapped is given to nobody", "[serve]") {
  char* const used = take(4 * kMiB);
  char* const gone = take(8 * kMiB);
  char* const last = take(2 * kMiB);
  CHECK(arena.free(gone));
  const auto keep_out = [&](const char* from, std::uint64_t bytes) {
    const Granules first = space.granule_of(from);
    arena.keep_out(first, first + granules_of(bytes));
    CHECK(arena.valid());
  };
  keep_out(gone + kMiB, 2 * kMiB);
  keep_out(used + 3 * kMiB, 2 * kMiB);        // partly in use
  keep_out(last + 2 * kMiB + 65536, 131072);  // never used, where that is usable
  std::uint64_t sum = 0;
  for (char* block = take(kMiB / 2); sum < 64 * kMiB; block = take(kMiB / 2)) {
    sum += kMiB / 2;
    CHECK((block + kMiB / 2 <= gone || block >= gone + 3 * kMiB));
    const char* const above = last + 2 * kMiB + 65536;
    CHECK((block + kMiB / 2 <= above || block >= above + 131072));
  }
  CHECK(arena.valid());
  CHECK(arena.free(used));
  arena.trim();
  CHECK(arena.valid());
}

// Another thread has freed a block, and has not yet told the index of free runs.
void free_untold(const Space& space, char* block, std::uint64_t bytes) {
  REQUIRE(os::purge(block, bytes));
  PageMap pages = space.pages;
  REQUIRE(pages.free(space.granule_of(block), PageMap::Left::kNone) == granules_of(bytes));
}

TEST_CASE_METHOD(ArenaFixture, "arena: a block that is freed as the end is given up stays nobody's",
                 "[serve]") {
  take(4 * kMiB);
  char* const untold = take(8 * kMiB);
  CHECK(arena.free(take(2 * kMiB)));
  arena.trim();
  free_untold(space, untold, 8 * kMiB);
  arena.retreat();
  const char* const large = take(12 * kMiB);
  for (int i = 0; i < 16; ++i) {
    const char* const block = take(2 * kMiB);
    CHECK((block >= large + 12 * kMiB || block + 2 * kMiB <= large));
  }
}

TEST_CASE_METHOD(ArenaFixture, "arena: what others have mapped beside a block that is just freed",
                 "[serve]") {
  char* const untold = take(4 * kMiB);
  char* const told = take(8 * kMiB);
  take(2 * kMiB);
  CHECK(arena.free(told));
  arena.trim();
  free_untold(space, untold, 4 * kMiB);
  const Granules first = space.granule_of(told);
  arena.keep_out(first + granules_of(kMiB), first + granules_of(3 * kMiB));
  for (int i = 0; i < 64; ++i) {
    const char* const block = take(kMiB);
    CHECK((block + kMiB <= told + kMiB || block >= told + 3 * kMiB));
  }
}

TEST_CASE("arena: what a sparse block has beyond the peak goes with it", "[serve]") {
  testing::OwnSpace own{128 * kMiB};
  testing::OwnPool pool{&own.space};
  // Blocks of many sizes, of which every other page is written: in pieces they would go call by
  // call.
  for (std::uint64_t size = 32 * kMiB; size < 48 * kMiB; size += kMiB) {
    char* const block = static_cast<char*>(pool.allocate(size, 16, 0).start);
    REQUIRE(block != nullptr);
    for (std::uint64_t at = 0; at < 32 * kMiB; at += 16 * kGranule) {
      block[(at + 7 * size) % size] = 1;
    }
    CHECK(pool.free(block, false));
  }
  CHECK(testing::resident_bytes(own.space.base(), 64 * kMiB) <= 4 * kMiB);
}

TEST_CASE("written: a block expects what the last of its size has held, if that was new",
          "[serve]") {
  Shares shares;
  CHECK(shares.expected(512_g) == 512_g);
  shares.note(512_g, 10_g, true, false);
  CHECK(shares.expected(512_g) == 10_g);
  shares.note(512_g, 40_g, false, false);  // earlier blocks may have written some
  CHECK(shares.expected(512_g) == 10_g);
  shares.note(512_g, 40_g, true, false);
  CHECK(shares.expected(512_g) == 40_g);
  const Expected expected(513_g, 10_g, true);
  CHECK(expected.fresh());
  CHECK(expected.of(513_g) == 10_g);
  CHECK(Expected(513_g, 513_g, false).of(513_g) == 513_g);
  CHECK(Expected(1'000'000_g, 10_g, false).of(1'000'000_g) >= 10_g);
}

// What is expected of the one and of the other makes the place's memory, to the granule.
TEST_CASE("arena: blocks of new sizes find what grown ones have left", "[serve]") {
  testing::OwnSpace own{64 * kMiB};
  testing::OwnPool pool{&own.space};
  std::uint64_t lacking = 0;
  for (std::uint64_t i = 0; i < 60; ++i) {
    const std::uint64_t bytes = bytes_of(260_g + Granules{i * 37 % 61 * 4 + i});
    char* const block = static_cast<char*>(pool.allocate(bytes, 16, 0).start);
    REQUIRE(block != nullptr);
    lacking += i < 20 ? 0 : bytes - testing::resident_bytes(block, bytes);
    std::memset(block, 1, bytes);
    REQUIRE(pool.resize(block, 2 * bytes));
    CHECK(pool.free(block, false));
    CHECK(pool.valid());
  }
  CHECK(lacking <= 4 * kMiB);
}

TEST_CASE("written: a block of a new size is written as the last new ones were", "[serve]") {
  Shares shares;
  for (Granules size = 512_g; size < 516_g; size += 1_g) {
    shares.note(size, 5_g, true, true);
  }
  CHECK(shares.expected(10'000_g) < 4'000_g);
  CHECK(shares.expected(512_g) == 5_g);  // has been seen
  for (int i = 0; i < 100; ++i) {
    shares.note(512_g, 5_g, true, true);  // is not new
  }
  for (Granules size = 600_g; size < 612_g; size += 1_g) {
    shares.note(size, size, true, true);
  }
  CHECK(shares.expected(10'000_g) == 10'000_g);
}

TEST_CASE("written: a block of many GiB goes without a look at each of its pages", "[serve]") {
  testing::OwnSpace own{16ULL << 30U};
  testing::OwnPool pool(&own.space);
  char* const block = static_cast<char*>(pool.allocate(8ULL << 30U, 16, 0).start);
  REQUIRE(block != nullptr);
  std::memset(block, 1, 8 * kMiB);
  CHECK(pool.free(block, false));
  CHECK(testing::resident_bytes(block, 8 * kMiB) == 0);
  CHECK(pool.held().dirty_bytes() == 0);
  pool.free(pool.allocate(kMiB / 2, 16, 0).start, false);
  CHECK(pool.held().peak_bytes() <= 2 * kMiB);
  CHECK(pool.valid());
}

TEST_CASE("written: what was hardly written raises no peak, also where all of it goes at once",
          "[serve]") {
  testing::OwnSpace own{1024 * kMiB};
  testing::OwnPool pool(&own.space);
  for (std::uint64_t size = 64 * kMiB; size < 68 * kMiB; size += kMiB) {
    char* const block = static_cast<char*>(pool.allocate(size, 16, 0).start);
    REQUIRE(block != nullptr);
    std::memset(block, 1, kMiB);
    CHECK(pool.free(block, true));
  }
  pool.free(pool.allocate(kMiB / 2, 16, 0).start, false);
  CHECK(pool.held().peak_bytes() <= 2 * kMiB);
  CHECK(pool.valid());
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
