#include "src/serve/page_map.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <thread>
#include <vector>

#include "tests/support/process.h"
#include "tests/support/spaces.h"

namespace memo {
namespace {

using testing::BareMap;
using testing::Random;

TEST_CASE("page map: a claim needs every granule", "[serve]") {
  BareMap bare(64);
  PageMap& map = bare.map;
  CHECK(map.claim(10, 5).granted);
  CHECK(map.length(10) == 5);
  CHECK_FALSE(map.claim(10, 1).granted);
  CHECK_FALSE(map.claim(14, 1).granted);
  CHECK_FALSE(map.claim(0, 11).granted);
  CHECK_FALSE(map.claim(14, 20).granted);
  CHECK(map.claim(0, 10).granted);
  CHECK(map.claim(15, 49).granted);
}

TEST_CASE("page map: only a block's start releases it, once", "[serve]") {
  BareMap bare(64);
  PageMap& map = bare.map;
  REQUIRE(map.claim(10, 5).granted);
  CHECK(map.release(11) == 0);
  CHECK(map.release(9) == 0);
  CHECK(map.length(11) == 0);
  CHECK(map.release(10) == 5);
  CHECK(map.release(10) == 0);
  CHECK(map.length(10) == 0);
  CHECK(map.claim(8, 10).dirty == 5);
}

TEST_CASE("page map: old bytes are known until they are given back", "[serve]") {
  BareMap bare(64);
  PageMap& map = bare.map;
  const FreeRuns& runs = bare.runs;
  CHECK(map.claim(0, 20).dirty == 0);
  map.release(0);
  const PageMap::Run run = runs.next_dirty(0, 64, 8);
  CHECK(run.first == 0);
  CHECK(run.count == 8);
  bare.mark_clean(0, 8);
  CHECK(runs.next_dirty(0, 64, 100).first == 8);
  CHECK(runs.next_dirty(0, 64, 100).count == 12);
  CHECK(map.claim(4, 10).dirty == 6);
  CHECK(runs.next_dirty(0, 14, 100).count == 0);
}

TEST_CASE("page map: what is just being released is not given back", "[serve]") {
  constexpr std::uint64_t kChunk = FreeChunks::kChunk;
  BareMap bare(4 * kChunk);
  PageMap& map = bare.map;
  const FreeRuns& runs = bare.runs;
  for (std::uint64_t first = 0; first < 2 * kChunk; first += kChunk) {
    REQUIRE(map.claim(first, kChunk).granted);
    runs.note_claimed(first, kChunk);
  }
  runs.note_free(0, kChunk, false);
  REQUIRE(map.release(0) == kChunk);
  // Another thread has said that it will release the second block, and is interrupted.
  runs.note_free(kChunk, kChunk, false);
  const PageMap::Run run = runs.next_dirty(0, 4 * kChunk, 4 * kChunk);
  CHECK(run.first == 0);
  CHECK(run.count == kChunk);
  bare.mark_clean(run.first, run.count);
  CHECK(runs.next_dirty(0, 4 * kChunk, 4 * kChunk).count == 0);
  CHECK_FALSE(map.claim(kChunk, kChunk).granted);
  CHECK(map.release(kChunk) == kChunk);
  CHECK(runs.next_dirty(0, 4 * kChunk, 4 * kChunk).first == kChunk);
  CHECK(map.valid(4 * kChunk));
  CHECK(runs.valid(4 * kChunk));
}

TEST_CASE("page map: blocks grow and shrink in place", "[serve]") {
  BareMap bare(64);
  PageMap& map = bare.map;
  REQUIRE(map.claim(0, 4).granted);
  REQUIRE(map.claim(10, 4).granted);
  CHECK_FALSE(map.extend(0, 11).granted);
  CHECK(map.length(0) == 4);
  CHECK(map.extend(0, 10).granted);
  CHECK(map.length(0) == 10);
  CHECK(map.shrink(0, 3) == 7);
  CHECK(map.length(0) == 3);
  CHECK(map.claim(3, 7).dirty == 7);
  CHECK(map.release(0) == 3);
}

TEST_CASE("page map: best fit takes the tightest run, from the lowest on", "[serve]") {
  BareMap bare(64);
  PageMap& map = bare.map;
  const FreeRuns& runs = bare.runs;
  for (const std::uint64_t used : {5UL, 9UL, 20UL, 24UL}) {  // free: 0-5, 6-9, 10-20, 21-24, 25-64
    REQUIRE(map.claim(used, 1).granted);
  }
  CHECK(runs.best_fit(0, 64, 3, 1).first == 6);
  CHECK(runs.best_fit(0, 64, 4, 1).first == 0);
  CHECK(runs.best_fit(0, 64, 6, 1).first == 10);
  CHECK(runs.best_fit(0, 64, 11, 1).first == 25);
  CHECK(runs.best_fit(0, 64, 3, 4).first == 0);
  CHECK(runs.best_fit(0, 64, 8, 8).first == 32);
  CHECK(runs.best_fit(0, 64, 40, 1).count == 0);
  CHECK(runs.best_fit(8, 64, 3, 1).first == 21);
  CHECK(runs.best_fit(8, 12, 3, 1).count == 0);
  REQUIRE(map.claim(40, 2).granted);
  map.release(40);  // where memory begins again inside of a run
  CHECK(runs.best_fit(0, 64, 3, 1).first == 40);
  CHECK(runs.best_fit(0, 64, 3, 8).first == 40);
  CHECK(runs.best_fit(0, 64, 10, 1).first == 40);
  CHECK(runs.best_fit(0, 64, 30, 1).first == 25);  // as much memory at its low end
  REQUIRE(map.claim(10, 2).granted);
  map.release(10);
  CHECK(runs.best_fit(0, 64, 3, 1).first == 10);
  REQUIRE(map.claim(45, 5).granted);
  map.release(45);  // only the first stretch counts
  CHECK(runs.best_fit(0, 64, 5, 1).first == 10);

  BareMap other(64);
  REQUIRE(other.map.claim(58, 6).granted);
  other.map.release(58);
  CHECK(other.runs.best_fit(0, 64, 6, 1).first == 58);
  CHECK(other.runs.best_fit(0, 64, 10, 1).first == 54);  // as near as the run's end allows
  CHECK(other.runs.best_fit(0, 64, 10, 4).first == 52);
}

TEST_CASE("page map: what is free below the end is found from behind", "[serve]") {
  BareMap bare(64);
  PageMap& map = bare.map;
  const FreeRuns& runs = bare.runs;
  CHECK(runs.tail(FreeRuns::Tail::kFree, 0, 64) == 0);
  REQUIRE(map.claim(21, 2).granted);
  CHECK(runs.tail(FreeRuns::Tail::kFree, 0, 64) == 23);
  CHECK(runs.tail(FreeRuns::Tail::kFree, 0, 63) == 23);
  CHECK(runs.tail(FreeRuns::Tail::kFree, 30, 64) == 30);
  CHECK(runs.tail(FreeRuns::Tail::kFree, 0, 23) == 23);
  REQUIRE(map.claim(50, 4).granted);
  map.release(50);
  CHECK(runs.tail(FreeRuns::Tail::kFree, 0, 64) == 23);
  map.release(21);
  CHECK(runs.tail(FreeRuns::Tail::kFree, 3, 64) == 3);
}

// The owner claims wherever it likes; others release what they are handed. A granule's owner word
// says whose it is: a claim that finds it taken has got memory that is still in use.
TEST_CASE("page map: other threads release while the owner claims", "[serve]") {
  constexpr std::uint64_t kGranules = 509;
  constexpr std::uint32_t kThreads = 3;
  constexpr std::uint32_t kBox = 64;
  for (const std::uint64_t seed : testing::seeds(2)) {
    INFO("seed " << seed);
    BareMap bare(kGranules);
    PageMap& map = bare.map;
    const FreeRuns& runs = bare.runs;
    std::vector<std::atomic<std::uint32_t>> owner(kGranules);
    std::vector<std::atomic<std::uint64_t>> boxes(
        kBox);  // first granule + 1 of a block to be freed
    std::vector<std::atomic<std::uint32_t>> length(kGranules);
    std::atomic<bool> done{false};
    std::atomic<std::uint64_t> wrong{0};
    const auto give_back = [&](std::uint64_t first) {
      const std::uint32_t count = length[first];
      for (std::uint64_t i = first; i < first + count; ++i) {
        wrong += owner[i].exchange(0) == first + 1 ? 0U : 1U;
      }
      wrong += map.release(first) == count ? 0U : 1U;
    };
    std::vector<std::thread> threads;
    for (std::uint32_t thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&, thread] {
        Random random(seed * 100 + thread);
        for (bool last = false; !last;) {
          last = done;
          for (std::uint32_t i = 0; i < kBox; ++i) {
            auto& box = boxes[last ? i : testing::below(random, kBox)];
            if (const std::uint64_t first = box.exchange(0)) {
              give_back(first - 1);
            }
          }
          std::this_thread::yield();
        }
      });
    }
    Random random(seed);
    std::uint64_t granted = 0;
    for (int i = 0; i < 30000; ++i) {
      const std::uint64_t first = testing::below(random, kGranules);
      const std::uint64_t count =
          1 + testing::below(random, std::min<std::uint64_t>(40, kGranules - first));
      if (!map.claim(first, count).granted) {
        continue;
      }
      ++granted;
      length[first] = static_cast<std::uint32_t>(count);
      for (std::uint64_t at = first; at < first + count; ++at) {
        wrong += owner[at].exchange(static_cast<std::uint32_t>(first) + 1) == 0 ? 0U : 1U;
      }
      if (const std::uint64_t old = boxes[testing::below(random, kBox)].exchange(first + 1)) {
        give_back(old - 1);
      }
    }
    done = true;
    for (std::thread& thread : threads) {
      thread.join();
    }
    CHECK(wrong == 0);
    CHECK(granted > 1000);
    CHECK(runs.next_free(0, kGranules).count == kGranules);
  }
}

}  // namespace
}  // namespace memo
