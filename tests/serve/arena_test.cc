// The arena and the space that it works on.
#include "src/serve/arena.h"

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <cstring>
#include <thread>
#include <vector>

#include "tests/support/arenas.h"
#include "tests/support/process.h"
#include "tests/support/spaces.h"

namespace memo {
namespace {

using testing::ArenaFixture;
using testing::below;
using testing::OwnSpace;
using testing::Random;

TEST_CASE_METHOD(ArenaFixture, "arena: a part of the peak is forgotten", "[serve]") {
  char* a = take(4 * kMiB);
  char* b = take(4 * kMiB);
  CHECK(arena.free(a));
  arena.trim(Arena::kAll, kMiB);
  CHECK(arena.held().peak_bytes() == 7 * kMiB);
  CHECK(arena.held().dirty_bytes() == 3 * kMiB);
  arena.trim(Arena::kAll, 7 * kMiB);
  CHECK(arena.held().peak_bytes() == 4 * kMiB);
  CHECK(arena.held().dirty_bytes() == 0);
  CHECK(arena.free(b));
  CHECK(arena.held().dirty_bytes() == 4 * kMiB);
  CHECK(arena.valid());
}

TEST_CASE_METHOD(ArenaFixture, "arena: freed memory is kept up to the peak and used again",
                 "[serve]") {
  char* a = take(kMiB);
  char* b = take(kMiB);
  CHECK(arena.held().live_bytes() == 2 * kMiB);
  CHECK(arena.free(a));
  CHECK(arena.held().live_bytes() == kMiB);
  CHECK(arena.held().dirty_bytes() == kMiB);
  const Arena::Block again = arena.allocate(kMiB, 16);
  CHECK(again.start == a);
  CHECK(again.resident);
  CHECK_FALSE(again.zero);
  CHECK(arena.free(again.start));
  CHECK(arena.free(b));
  CHECK_FALSE(arena.free(b));
  CHECK_FALSE(arena.free(b + kGranule));
  CHECK(arena.held().purged_bytes() == 0);
}

TEST_CASE_METHOD(ArenaFixture, "arena: fresh memory is zero and said to be", "[serve]") {
  const Arena::Block block = arena.allocate(5 * kGranule - 7, 16);
  CHECK(block.zero);
  CHECK_FALSE(block.resident);
  const auto* bytes = static_cast<const char*>(block.start);
  CHECK(std::all_of(bytes, bytes + 5 * kGranule, [](char byte) { return byte == 0; }));
}

TEST_CASE_METHOD(ArenaFixture, "arena: alignments up to 64 MiB are kept", "[serve]") {
  std::vector<char*> blocks;
  for (std::uint64_t alignment = 16; alignment <= 64 * kMiB; alignment *= 2) {
    char* block = take(3 * kGranule, alignment);
    CHECK(reinterpret_cast<std::uint64_t>(block) % alignment == 0);
    blocks.push_back(block);
  }
  std::sort(blocks.begin(), blocks.end());
  for (std::size_t i = 1; i < blocks.size(); ++i) {
    CHECK(blocks[i] - blocks[i - 1] >= static_cast<std::ptrdiff_t>(3 * kGranule));
  }
  for (char* block : blocks) {
    CHECK(arena.free(block));
  }
  CHECK(arena.held().live_bytes() == 0);
}

TEST_CASE_METHOD(ArenaFixture, "arena: what does not fit is refused, and all else goes on",
                 "[serve]") {
  CHECK(arena.allocate(256 * kMiB, 16).start == nullptr);
  CHECK(arena.allocate(UINT64_MAX - kGranule, 16).start == nullptr);
  char* block = take(200 * kMiB);
  CHECK(arena.allocate(60 * kMiB, 16).start == nullptr);
  CHECK(arena.held().live_bytes() == 200 * kMiB);
  CHECK(arena.free(block));
  CHECK(arena.allocate(60 * kMiB, 16).start != nullptr);
}

TEST_CASE_METHOD(ArenaFixture, "arena: trimming leaves what lives, and what comes is zero",
                 "[serve]") {
  char* a = take(2 * kMiB);
  char* b = take(kMiB);
  char* c = take(4 * kMiB);
  arena.free(a);
  arena.free(c);
  CHECK(arena.trim() == 6 * kMiB);
  CHECK(arena.held().purged_bytes() == 6 * kMiB);
  CHECK(arena.held().dirty_bytes() == 0);
  CHECK(resident() == kMiB);
  CHECK(std::all_of(b, b + kMiB, [](char byte) { return byte == 1; }));
  const Arena::Block again = arena.allocate(2 * kMiB, 16);
  CHECK(again.zero);
  const auto* bytes = static_cast<const char*>(again.start);
  CHECK(std::all_of(bytes, bytes + 2 * kMiB, [](char byte) { return byte == 0; }));
}

TEST_CASE_METHOD(ArenaFixture, "arena: a peak that does not come back is given back", "[serve]") {
  char* big = take(32 * kMiB);
  arena.free(big);
  CHECK(arena.held().dirty_bytes() == 32 * kMiB);
  arena.age();  // the window in which the peak was
  CHECK(arena.held().dirty_bytes() == 32 * kMiB);
  char* small = take(kMiB);
  arena.free(small);
  arena.age();  // one without it
  CHECK(arena.held().live_bytes() + arena.held().dirty_bytes() == kMiB);
  CHECK(resident() == kMiB);
  CHECK(arena.held().purged_bytes() == 31 * kMiB);
}

TEST_CASE_METHOD(ArenaFixture, "arena: other sizes take the place of old memory", "[serve]") {
  // The dirty 8 MiB hold no run for 10 MiB, so that most of them must be given back.
  std::vector<char*> blocks;
  for (int i = 0; i < 16; ++i) {
    blocks.push_back(take(kMiB));
  }
  for (std::size_t i = 0; i < blocks.size(); i += 2) {
    arena.free(blocks[i]);
  }
  take(7 * kMiB);
  CHECK(arena.held().live_bytes() == 15 * kMiB);
  CHECK(arena.held().dirty_bytes() == kMiB);
  CHECK(resident() == 16 * kMiB);
}

TEST_CASE_METHOD(ArenaFixture, "arena: blocks are resized in place", "[serve]") {
  char* a = take(kMiB);
  CHECK(arena.resize(a, 3 * kMiB) == 2 * kMiB);
  CHECK(space.pages.length(space.granule_of(a)) == granules_in(3 * kMiB));
  CHECK(arena.held().live_bytes() == 3 * kMiB);
  std::memset(a, 2, 3 * kMiB);
  CHECK(arena.resize(a, kMiB));
  CHECK(arena.held().live_bytes() == kMiB);
  CHECK(arena.held().dirty_bytes() == 0);  // what is cut off of a large block goes back
  CHECK(arena.resize(a, kMiB - 5));
  CHECK(arena.resize(a, 1) == 0);
  CHECK(arena.held().live_bytes() == kGranule);
  CHECK(arena.resize(a, kMiB) == 0);  // what is cut off of a small one stays
  char* b = take(kMiB);
  CHECK(b == a + kMiB);  // what shrinking gave back is used first
  CHECK_FALSE(arena.resize(a, kMiB + 1));
  CHECK_FALSE(arena.resize(b, 300 * kMiB));
  CHECK(arena.held().live_bytes() == 2 * kMiB);
  CHECK(arena.free(a));
  CHECK(arena.free(b));
}

TEST_CASE_METHOD(ArenaFixture, "space: committed step by step, readable past the end", "[serve]") {
  CHECK_FALSE(space.plausible(space.base()));
  REQUIRE(space.commit(kGranule));
  CHECK(space.plausible(space.base()));
  CHECK(space.plausible(space.base() + kGranule));
  CHECK_FALSE(space.plausible(space.base() + 1));
  CHECK_FALSE(space.plausible(space.base() - kGranule));
  CHECK_FALSE(space.plausible(space.base() + 256 * kMiB));
  REQUIRE(space.commit(64 * kMiB));
  volatile const char* past = space.base() + 64 * kMiB;
  CHECK(past[127] == 0);
  CHECK(space.pages.claim(granules_in(64 * kMiB) - 1_g, 1_g).granted);
  CHECK_FALSE(space.commit(256 * kMiB));  // there would be nothing readable behind it
  CHECK(space.commit(256 * kMiB - kGranule));
  CHECK(space.granule_of(space.address(777_g)) == 777_g);
}

// A block with a stamp at both ends and in the middle of every page.
struct Stamped {
  char* start = nullptr;
  std::uint64_t bytes = 0;
  char stamp = 0;
  void fill() const { std::memset(start, stamp, bytes); }
  [[nodiscard]] bool whole() const {
    for (std::uint64_t at = 0; at < bytes; at += 512) {
      if (start[at] != stamp) {
        return false;
      }
    }
    return start[bytes - 1] == stamp;
  }
};

TEST_CASE_METHOD(ArenaFixture, "arena: what is free behind the last block counts no more",
                 "[serve]") {
  char* const low = take(kMiB);
  char* const high = take(32 * kMiB);
  arena.free(high);
  CHECK(arena.retreat() < 32 * kMiB);  // there are old bytes behind
  arena.trim();
  CHECK(arena.retreat() >= 31 * kMiB);
  CHECK(arena.retreat() == 0);
  CHECK(space.committed_bytes() == kMiB + kGranule);
  CHECK(space.plausible(low));
  CHECK_FALSE(space.plausible(high + kMiB));
  CHECK(arena.valid());
  volatile const char* past = low + kMiB;
  CHECK(past[127] == 0);
  CHECK(take(32 * kMiB) == high);
  CHECK(arena.valid());
}

TEST_CASE_METHOD(ArenaFixture, "arena: pieces that go and come back make a slack", "[serve]") {
  const bool ages = GENERATE(false, true);  // the peak is another one then
  Random random(1);
  std::vector<void*> blocks(20);
  Granules asked;
  Granules lacked;
  for (int i = 0; i < 4000; ++i) {
    void*& block = blocks[below(random, blocks.size())];
    const Granules count{100 + below(random, 400)};
    const Arena::Block other = arena.allocate(bytes_of(count), 16);
    REQUIRE(other.start != nullptr);
    CHECK((block == nullptr || arena.free(block)));
    block = other.start;
    if (ages && i % 300 == 0) {
      arena.age();
    }
    if (i >= 2000) {
      asked += count;
      lacked += granules_of(other.lacking);
    }
    const HeldMemory& held = arena.held();
    REQUIRE(held.live() + held.dirty() <= held.peak() + held.peak() / tuning::kPoolSlack);
  }
  INFO(lacked.count() << " of " << asked.count() << " granules lacked memory");
  CHECK(lacked < asked / (ages ? 24 : 64));
  CHECK(arena.valid());
}

TEST_CASE("arena: never holds more than its peak and the slack, whatever happens",
          "[serve][property]") {
  for (const std::uint64_t seed : testing::seeds(4)) {
    INFO("seed " << seed);
    ArenaFixture fixture;
    testing::OwnArena& arena = fixture.arena;
    Random random(seed);
    std::vector<Stamped> alive;
    std::uint64_t peak = 0;
    for (int i = 0; i < 1500; ++i) {
      const std::uint64_t choice = below(random, 100);
      if (choice < 50 && arena.held().live_bytes() < 24 * kMiB) {
        Stamped block;
        block.bytes = 1 + below(random, below(random, 8) == 0 ? 2 * kMiB : 200'000);
        const std::uint64_t alignment = 1ULL << (4 + below(random, 12));
        const Arena::Block got = arena.allocate(block.bytes, alignment);
        REQUIRE(got.start != nullptr);
        REQUIRE(reinterpret_cast<std::uint64_t>(got.start) % alignment == 0);
        block.start = static_cast<char*>(got.start);
        if (got.zero) {
          block.stamp = 0;
          REQUIRE(block.whole());
        }
        block.stamp = static_cast<char>(i);
        block.fill();
        alive.push_back(block);
      } else if (choice < 90 && !alive.empty()) {
        std::swap(alive[below(random, alive.size())], alive.back());
        REQUIRE(alive.back().whole());
        REQUIRE(arena.free(alive.back().start));
        alive.pop_back();
      } else if (choice < 97 && !alive.empty()) {
        Stamped& block = alive[below(random, alive.size())];
        const std::uint64_t bytes = 1 + below(random, 400'000);
        REQUIRE(block.whole());
        if (arena.resize(block.start, bytes)) {
          block.bytes = std::min(block.bytes, bytes);
          REQUIRE(block.whole());
          block.bytes = bytes;
          block.fill();
        }
      } else if (choice < 99) {
        arena.age();
      } else {
        arena.trim();
        peak = 0;
        REQUIRE(arena.held().dirty_bytes() == 0);
        if (below(random, 2) == 0) {
          arena.retreat();
          REQUIRE(fixture.space.committed_bytes() <= fixture.end_of_blocks() + 2 * kGranule);
        }
      }
      REQUIRE(arena.valid());
      peak = std::max(peak, arena.held().live_bytes());
      REQUIRE(arena.held().live_bytes() + arena.held().dirty_bytes() <=
              peak + peak / tuning::kPoolSlack);
      if (i % 300 == 0) {
        REQUIRE(fixture.resident() <= arena.held().live_bytes() + arena.held().dirty_bytes());
      }
    }
    for (const Stamped& block : alive) {
      REQUIRE(block.whole());
      REQUIRE(arena.free(block.start));
    }
    REQUIRE(arena.held().live_bytes() == 0);
    arena.trim();
    REQUIRE(fixture.resident() == 0);
  }
}

TEST_CASE("arena: frees of other threads are in the books at the end", "[serve][property]") {
  for (const std::uint64_t seed : testing::seeds(2)) {
    INFO("seed " << seed);
    ArenaFixture fixture;
    testing::OwnArena& arena = fixture.arena;
    std::vector<std::atomic<Stamped*>> boxes(32);
    std::atomic<bool> done{false};
    std::atomic<std::uint64_t> wrong{0};
    const auto give_back = [&](Stamped* block) {
      if (block != nullptr) {
        wrong += block->whole() && arena.free(block->start) ? 0U : 1U;
        delete block;
      }
    };
    std::vector<std::thread> threads;
    for (std::uint64_t thread = 0; thread < 3; ++thread) {
      threads.emplace_back([&, thread] {
        Random random(seed * 10 + thread);
        while (!done) {
          give_back(boxes[below(random, boxes.size())].exchange(nullptr));
          std::this_thread::yield();
        }
      });
    }
    Random random(seed);
    for (int i = 0; i < 10000; ++i) {
      const std::uint64_t bytes = 1 + below(random, 100'000);
      const Arena::Block got = arena.allocate(bytes, 64);
      REQUIRE(got.start != nullptr);
      auto* block = new Stamped{static_cast<char*>(got.start), bytes, static_cast<char>(i)};
      block->fill();
      give_back(boxes[below(random, boxes.size())].exchange(block));
      if (i % 1000 == 0) {
        arena.age();
      }
    }
    done = true;
    for (std::thread& thread : threads) {
      thread.join();
    }
    for (auto& box : boxes) {
      give_back(box.exchange(nullptr));
    }
    CHECK(wrong == 0);
    CHECK(arena.held().live_bytes() == 0);
    CHECK(arena.valid());
    CHECK(fixture.resident() <= arena.held().dirty_bytes());
    arena.trim();
    CHECK(arena.held().dirty_bytes() == 0);
    CHECK(fixture.resident() == 0);
  }
}

}  // namespace
}  // namespace memo
