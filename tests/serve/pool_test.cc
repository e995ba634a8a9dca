// A pool of several arenas.
#include "src/serve/pool.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <cstring>
#include <thread>
#include <vector>

#include "src/base/os.h"
#include "src/serve/space.h"
#include "tests/support/process.h"
#include "tests/support/spaces.h"

namespace memo {
namespace {

using testing::below;
using testing::Random;

constexpr std::uint32_t kArenas = 3;
constexpr std::uint64_t kArenaSpace = 256 * kMiB;

class SeveralArenas {
 protected:
  SeveralArenas() {
    REQUIRE(region_.reserve(spaces_.data(), kArenas, kArenas, kArenaSpace, kArenaSpace, false));
    pool.open(parts_, spaces_.data(), false);
  }
  ~SeveralArenas() {
    t_state.arena = 0;
    os::unmap(spaces_[0].base(), kArenas * kArenaSpace);
    os::unmap(region_.tables(), kArenas * Space::record_bytes(kArenaSpace));
  }
  // A written block, for a thread that uses arena number `arena`.
  char* take(std::uint8_t arena, std::uint64_t bytes) {
    t_state.arena = arena;
    auto* start = static_cast<char*>(pool.allocate(bytes, 64, 7).start);
    REQUIRE(start != nullptr);
    std::memset(start, 1, bytes);
    return start;
  }
  [[nodiscard]] std::uint32_t arena_of(const char* block) const {
    return static_cast<std::uint32_t>((block - spaces_[0].base()) /
                                      static_cast<std::ptrdiff_t>(kArenaSpace));
  }
  std::array<Space, kArenas> spaces_;
  std::array<Pool::Part, kArenas> parts_;
  Region region_;

 public:
  Pool pool;
};

TEST_CASE_METHOD(SeveralArenas,
                 "pool: a thread that waits again and again goes on to another arena", "[serve]") {
  CHECK(arena_of(take(0, kMiB)) == 0);
  std::thread undisturbed([&] { CHECK(arena_of(take(0, kMiB)) == 0); });
  undisturbed.join();
  REQUIRE(parts_[0].lock->try_lock());
  std::thread other([&] {
    void* start = nullptr;
    int calls = 0;
    for (; start == nullptr && calls < 20; ++calls) {
      start = pool.allocate(kMiB, 64, 0).start;
    }
    CHECK(calls > 2);
    CHECK(calls < 20);
    CHECK(arena_of(static_cast<char*>(start)) == 1);
  });
  other.join();
  parts_[0].lock->unlock();
  CHECK(pool.valid());
}

TEST_CASE_METHOD(SeveralArenas, "pool: a thread has the addresses of all arenas", "[serve]") {
  t_state.arena = 1;
  std::uint32_t blocks = 0;
  std::array<std::uint32_t, kArenas> in{};
  for (; const void* start = pool.allocate(60 * kMiB, 64, 7).start; ++blocks) {
    ++in.at(arena_of(static_cast<const char*>(start)));
  }
  CHECK(blocks == 4 * kArenas);
  CHECK(std::ranges::count(in, 4U) == kArenas);
  CHECK(pool.allocate(kMiB, 64, 7).start != nullptr);
  CHECK(pool.allocate(kArenaSpace, 64, 7).start == nullptr);
}

TEST_CASE_METHOD(SeveralArenas, "pool: memory that is there is taken in whichever arena it lies",
                 "[serve]") {
  char* const first = take(0, 8 * kMiB);
  char* const second = take(1, 4 * kMiB);
  REQUIRE(arena_of(second) == 1);
  CHECK(pool.owner(second) == 7);
  CHECK(pool.free(second, false));
  CHECK(take(0, 4 * kMiB) == second);
  CHECK(pool.free(first, false));
  CHECK(take(2, 8 * kMiB) == first);
  CHECK(pool.held().live_bytes() == 12 * kMiB);
  CHECK(pool.held().peak_bytes() == 12 * kMiB);
  CHECK(pool.valid());
}

TEST_CASE_METHOD(SeveralArenas, "pool: what one arena takes another gives back", "[serve]") {
  std::vector<char*> blocks;
  for (int i = 0; i < 8; ++i) {
    blocks.push_back(take(0, kMiB));
    take(0, kGranule);
  }
  for (char* block : blocks) {
    CHECK(pool.free(block, false));
  }
  take(1, 8 * kMiB);  // fits none of the gaps
  CHECK(pool.held().dirty_bytes() == 0);
  CHECK(testing::resident_bytes(blocks[0], kMiB) == 0);
  CHECK(pool.held().live_bytes() == 8 * (kMiB + kGranule));
  CHECK(pool.valid());
}

TEST_CASE_METHOD(SeveralArenas, "pool: all arenas are trimmed, and resized in", "[serve]") {
  for (std::uint8_t arena = 0; arena < kArenas; ++arena) {
    char* const block = take(arena, 4 * kMiB);
    REQUIRE(arena_of(block) == arena);
    CHECK(pool.resize(block, 3 * kMiB));
    CHECK(pool.free(block, false, false));
    take(arena, kGranule);
  }
  CHECK(pool.trim() > 0);
  CHECK(pool.held().dirty_bytes() == 0);
  CHECK(pool.retreat() > 0);
  CHECK(pool.valid());
}

// Threads on all arenas that free one another's blocks: each block is its holder's alone.
TEST_CASE_METHOD(SeveralArenas, "pool: threads of all arenas exchange blocks",
                 "[serve][property]") {
  const std::uint64_t seed = testing::seeds(1).front();
  INFO("seed " << seed);
  struct Held {
    std::atomic<char*> start{nullptr};
  };
  std::array<Held, 24> held;
  std::atomic<std::uint64_t> wrong{0};
  const auto give_back = [&](char* block) {
    if (block != nullptr) {
      std::uint64_t bytes = 0;
      std::memcpy(&bytes, block, sizeof bytes);
      wrong += std::memcmp(block, block + bytes - sizeof bytes, sizeof bytes) == 0 ? 0U : 1U;
      wrong += pool.free(block, false) ? 0U : 1U;
    }
  };
  std::vector<std::thread> threads;
  for (std::uint32_t thread = 0; thread < 2 * kArenas; ++thread) {
    threads.emplace_back([&, thread] {
      t_state.arena = static_cast<std::uint8_t>(thread % kArenas);
      Random random(seed * 100 + thread);
      for (int i = 0; i < 4000; ++i) {
        const std::uint64_t bytes = (1 + below(random, 60)) * kGranule;
        auto* block = static_cast<char*>(pool.allocate(bytes, 64, 0).start);
        if (block != nullptr) {
          std::memcpy(block, &bytes, sizeof bytes);
          std::memcpy(block + bytes - sizeof bytes, &bytes, sizeof bytes);
          give_back(held[below(random, held.size())].start.exchange(block));
        }
        if (i % 500 == 0) {
          pool.age(kMiB);
        }
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  for (Held& one : held) {
    give_back(one.start.exchange(nullptr));
  }
  CHECK(wrong == 0);
  CHECK(pool.held().live_bytes() == 0);
  CHECK(pool.valid());
  pool.trim();
  CHECK(pool.held().dirty_bytes() == 0);
}

TEST_CASE_METHOD(SeveralArenas,
                 "pool: what is free may be taken by the system, and what is in use may not",
                 "[serve]") {
  constexpr std::uint64_t kBlock = 2 * kMiB;
  std::vector<char*> blocks;
  for (std::uint8_t i = 0; i < 60; ++i) {
    blocks.push_back(take(i % kArenas, kBlock));
  }
  for (std::size_t i = 0; i < blocks.size(); i += 2) {
    REQUIRE(pool.free(blocks[i], false));
  }
  const std::uint64_t before = testing::lazily_freed();
  pool.free_lazily();
  const std::uint64_t free = blocks.size() / 2 * kBlock;
  CHECK(testing::lazily_freed() - before <= free);
  CHECK(testing::lazily_freed() - before >= free - free / 8);
  CHECK(pool.held().dirty_bytes() == free);
  CHECK(os::resident_bytes(blocks[0], kBlock) == kBlock);
  for (std::size_t i = 1; i < blocks.size(); i += 2) {
    CHECK(blocks[i][kBlock - 1] == 1);
  }
  CHECK(pool.valid());
}

TEST_CASE("pool: a child takes nothing for written that its parent has written", "[serve]") {
  testing::OwnSpace own{64 * kMiB};
  testing::OwnPool pool(&own.space);
  pool.ahead().widen(8 * kMiB);
  CHECK(pool.ahead().room(1024 * kMiB) == 12 * kMiB);
  pool.after_fork();
  CHECK(pool.ahead().room(1024 * kMiB) == tuning::kMaxUnwritten);
}

}  // namespace
}  // namespace memo
