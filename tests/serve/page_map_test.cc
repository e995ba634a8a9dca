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
  BareMap bare(64_g);
  PageMap& map = bare.map;
  CHECK(map.claim(10_g, 5_g).granted);
  CHECK(map.length(10_g) == 5_g);
  CHECK_FALSE(map.claim(10_g, 1_g).granted);
  CHECK_FALSE(map.claim(14_g, 1_g).granted);
  CHECK_FALSE(map.claim(0_g, 11_g).granted);
  CHECK_FALSE(map.claim(14_g, 20_g).granted);
  CHECK(map.claim(0_g, 10_g).granted);
  CHECK(map.claim(15_g, 49_g).granted);
}

TEST_CASE("page map: only a block's start releases it, once", "[serve]") {
  BareMap bare(64_g);
  PageMap& map = bare.map;
  REQUIRE(map.claim(10_g, 5_g).granted);
  CHECK(map.free(11_g) == 0_g);
  CHECK(map.free(9_g) == 0_g);
  CHECK(map.length(11_g) == 0_g);
  CHECK(map.free(10_g) == 5_g);
  CHECK(map.free(10_g) == 0_g);
  CHECK(map.length(10_g) == 0_g);
  CHECK(map.claim(8_g, 10_g).dirty == 5_g);
}

TEST_CASE("page map: old bytes are known until they are given back", "[serve]") {
  BareMap bare(64_g);
  PageMap& map = bare.map;
  CHECK(map.claim(0_g, 20_g).dirty == 0_g);
  map.free(0_g);
  map.mark_clean(0_g, 8_g);
  CHECK(map.states().alike_until(0_g, 64_g) == 8_g);
  CHECK(map.states().alike_until(8_g, 64_g) == 20_g);
  CHECK(map.states().alike_until(8_g, 17_g) == 17_g);
  CHECK(map.states().alike_until(20_g, 64_g) == 64_g);
  CHECK(map.claim(4_g, 10_g).dirty == 6_g);
}

TEST_CASE("page map: blocks grow and shrink in place", "[serve]") {
  BareMap bare(64_g);
  PageMap& map = bare.map;
  REQUIRE(map.claim(0_g, 4_g).granted);
  REQUIRE(map.claim(10_g, 4_g).granted);
  CHECK_FALSE(map.extend(0_g, 11_g).granted);
  CHECK(map.length(0_g) == 4_g);
  CHECK(map.extend(0_g, 10_g).granted);
  CHECK(map.length(0_g) == 10_g);
  map.shrink(0_g, 3_g);
  CHECK(map.length(0_g) == 3_g);
  CHECK(map.claim(3_g, 7_g).dirty == 7_g);
  map.shrink(3_g, 1_g, 2_g);
  CHECK(map.length(3_g) == 1_g);
  CHECK(map.look(4_g, 4_g).dirty == 4_g);
  CHECK(map.look(8_g, 2_g).dirty == 0_g);
  CHECK(map.free(0_g) == 3_g);
}

TEST_CASE("page map: what is free below the end is found from behind", "[serve]") {
  BareMap bare(64_g);
  PageMap& map = bare.map;
  CHECK(map.tail(PageMap::Tail::kFree, 0_g, 64_g) == 0_g);
  REQUIRE(map.claim(21_g, 2_g).granted);
  CHECK(map.tail(PageMap::Tail::kFree, 0_g, 64_g) == 23_g);
  CHECK(map.tail(PageMap::Tail::kFree, 0_g, 63_g) == 23_g);
  CHECK(map.tail(PageMap::Tail::kFree, 30_g, 64_g) == 30_g);
  CHECK(map.tail(PageMap::Tail::kFree, 0_g, 23_g) == 23_g);
  REQUIRE(map.claim(50_g, 4_g).granted);
  map.free(50_g);
  CHECK(map.tail(PageMap::Tail::kFree, 0_g, 64_g) == 23_g);
  map.free(21_g);
  CHECK(map.tail(PageMap::Tail::kFree, 3_g, 64_g) == 3_g);
}

// The owner claims wherever it likes; others release what they are handed. A granule's owner word
// says whose it is: a claim that finds it taken has got memory that is still in use.
TEST_CASE("page map: other threads release while the owner claims", "[serve]") {
  constexpr std::uint64_t kGranules = 509;
  constexpr std::uint32_t kThreads = 3;
  constexpr std::uint32_t kBox = 64;
  for (const std::uint64_t seed : testing::seeds(2)) {
    INFO("seed " << seed);
    BareMap bare(Granules{kGranules});
    PageMap& map = bare.map;
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
      wrong += map.free(Granules{first}) == Granules{count} ? 0U : 1U;
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
      if (!map.claim(Granules{first}, Granules{count}).granted) {
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
    CHECK(map.next_free(0_g, Granules{kGranules}).count == Granules{kGranules});
  }
}

}  // namespace
}  // namespace memo
