// The index of free runs, against a map of them.
#include "src/serve/free_index.h"

#include <catch2/catch.hpp>
#include <map>
#include <vector>

#include "tests/support/process.h"
#include "tests/support/spaces.h"

namespace memo {
namespace {

using testing::BareMap;
using testing::below;
using testing::Random;
using Kind = FreeIndex::Kind;

// A map in which all below `top` was a block once, so that what is freed is entered.
struct Indexed : BareMap {
  Granules top;
  explicit Indexed(Granules granules) : BareMap(granules), top(granules) {}
  void used(std::uint64_t first, std::uint64_t count) {
    REQUIRE(map.claim(Granules{first}, Granules{count}).granted);
  }
  void freed(std::uint64_t first) {
    REQUIRE(map.free(Granules{first}) != 0_g);
    index.defer(Granules{first});
    index.enter(1);
  }
  // All of it has memory and is free, and the index has none of it.
  void all_dirty() {
    used(0, top.count());
    freed(0);
    REQUIRE(FreeIndex::Dirty(index, top).take().count == top);
  }
};

TEST_CASE("free index: the shortest run that fits, from the lowest on", "[serve]") {
  Indexed own(100_g);
  for (const std::uint64_t first : {0U, 10U, 20U, 40U}) {
    own.used(first, first == 20 ? 20 : 10);
  }
  own.used(50, 50);
  own.freed(0);
  own.freed(20);
  CHECK(own.index.fit(Kind::kDirty, 5_g, 1_g).start == 0_g);
  CHECK(own.index.fit(Kind::kDirty, 11_g, 1_g).start == 20_g);
  CHECK(own.index.fit(Kind::kDirty, 8_g, 8_g).start == 0_g);
  CHECK(own.index.fit(Kind::kDirty, 8_g, 32_g).start == 0_g);
  CHECK_FALSE(own.index.fit(Kind::kDirty, 21_g, 1_g).found());
  CHECK_FALSE(own.index.fit(Kind::kClean, 1_g, 1_g).found());
  own.freed(10);  // one run of 40
  CHECK(own.index.fit(Kind::kDirty, 40_g, 1_g).start == 0_g);
  own.index.take(own.index.fit(Kind::kDirty, 8_g, 16_g), 8_g);
  own.used(0, 8);
  CHECK(own.index.fit(Kind::kDirty, 8_g, 16_g).start == 16_g);
  CHECK(own.index.valid(own.top));
}

TEST_CASE("free index: a place goes on where there is no memory, before or behind", "[serve]") {
  Indexed own(100_g);
  own.all_dirty();
  own.used(90, 10);
  own.used(0, 10);
  own.map.mark_clean(10_g, 30_g);
  own.map.mark_clean(60_g, 30_g);
  own.index.add(10_g, 80_g);  // clean 10 to 40, dirty to 60, clean to 90
  REQUIRE(own.index.valid(own.top));
  CHECK(own.index.overlap(Kind::kDirty, 30_g, 25_g, 1_g, own.top).start == 40_g);
  // The memory may be at its end as well: the lowest place.
  CHECK(own.index.overlap(Kind::kDirty, 30_g, 30_g, 1_g, own.top).start == 30_g);
  // No half of them has memory: at an end of what is free.
  CHECK(own.index.overlap(Kind::kDirty, 50_g, 50_g, 1_g, own.top).start == 10_g);
  CHECK(own.index.overlap(Kind::kDirty, 51_g, 51_g, 1_g, own.top).start == 10_g);
  CHECK(own.index.overlap(Kind::kDirty, 60_g, 60_g, 16_g, own.top).start == 16_g);
  CHECK_FALSE(own.index.overlap(Kind::kDirty, 81_g, 81_g, 1_g, own.top).found());
  // All is free behind: enough has memory, or not.
  CHECK_FALSE(own.index.overlap(Kind::kDirty, 81_g, 81_g, 1_g, 90_g).found());
  CHECK(own.index.below(90_g).start == 10_g);
  CHECK_FALSE(own.index.below(95_g).found());
  CHECK(own.index.behind(40_g, 70_g, own.top).found());
  CHECK_FALSE(own.index.behind(40_g, 91_g, own.top).found());
  CHECK_FALSE(own.index.behind(41_g, 50_g, own.top).found());
  own.index.take(own.index.overlap(Kind::kDirty, 60_g, 60_g, 16_g, own.top), 76_g);
  own.used(16, 60);
  CHECK(own.index.valid(own.top));
}

TEST_CASE("free index: of the places that have memory the one with the most is taken", "[serve]") {
  Indexed own(100_g);
  own.all_dirty();
  own.used(50, 10);
  own.used(95, 5);
  own.map.mark_clean(0_g, 5_g);
  own.map.mark_clean(20_g, 30_g);
  own.map.mark_clean(74_g, 4_g);
  own.index.add(0_g, 50_g);   // clean 0 to 5, dirty to 20, clean to 50
  own.index.add(60_g, 35_g);  // dirty 60 to 74, clean to 78, dirty to 95
  REQUIRE(own.index.valid(own.top));
  CHECK(own.index.overlap(Kind::kDirty, 18_g, 18_g, 1_g, own.top).start == 77_g);
  CHECK(own.index.overlap(Kind::kDirty, 30_g, 30_g, 1_g, own.top).start == 60_g);
  CHECK(own.index.overlap(Kind::kDirty, 40_g, 40_g, 1_g, own.top).start == 0_g);
  CHECK(own.index.overlap(Kind::kClean, 32_g, 32_g, 1_g, own.top).start == 60_g);
  // Memory behind what will be written is better left to others.
  CHECK(own.index.overlap(Kind::kDirty, 40_g, 5_g, 1_g, own.top).start == 10_g);
}

TEST_CASE("free index: what is given back is the shortest that is long enough, then the longest",
          "[serve]") {
  Indexed own(400_g);
  std::uint64_t first = 0;
  for (const std::uint64_t count : {30U, 3U, 100U, 12U}) {
    own.used(first, count);
    own.used(first + count, 1);
    own.freed(first);
    first += count + 1;
  }
  own.used(first, 400 - first);
  FreeIndex::Dirty dirty(own.index, 20_g);
  std::vector<std::uint64_t> order;
  for (PageMap::Run run = dirty.take(); run.found(); run = dirty.take()) {
    order.push_back(run.count.count());
    own.index.add(run.first, run.count);
  }
  // Those that were refused may come once more.
  REQUIRE(order.size() >= 4);
  CHECK(order[0] == 30);
  CHECK(order[1] == 100);
  CHECK(order[2] == 12);
  CHECK(order[3] == 3);
  CHECK(own.index.valid(own.top));
}

// Blocks at random, and every run that there is found by its length.
TEST_CASE("free index: knows each free run under random calls", "[serve][property]") {
  for (const std::uint64_t seed : testing::seeds(6)) {
    INFO("seed " << seed);
    Random random(seed);
    Indexed own(2000_g);
    own.used(0, 2000);
    own.freed(0);
    std::map<Granules, Granules> blocks;
    for (int i = 0; i < 4000; ++i) {
      const std::uint64_t choice = below(random, 10);
      if (choice < 5) {
        const Granules count{1 + below(random, below(random, 5) == 0 ? 400 : 30)};
        const Granules step{1ULL << below(random, 5)};
        Granules most;  // the longest place of one kind, at such a step
        for (PageMap::Run run = own.map.next_free(0_g, own.top); run.found();
             run = own.map.next_free(run.end(), own.top)) {
          const Granules start = round_up(run.first, step);
          most = std::max(most, run.end() - std::min(run.end(), start));
        }
        FreeIndex::Place place = own.index.fit(Kind::kDirty, count, step);
        if (!place.found()) {
          place = own.index.overlap(Kind::kDirty, count, count, step, own.top + 1_g);
        }
        if (!place.found()) {
          place = own.index.fit(Kind::kClean, count, step);
        }
        REQUIRE((!place.found() || most >= count));
        if (place.found()) {
          REQUIRE(place.start % step == 0_g);
          REQUIRE(own.map.claim(place.start, count).granted);
          own.index.take(place, place.start + count);
          blocks[place.start] = count;
        }
      } else if (choice < 9 && !blocks.empty()) {
        auto block = blocks.lower_bound(Granules{below(random, 2000)});
        block = block == blocks.end() ? blocks.begin() : block;
        if (block->second > 4_g && below(random, 3) == 0) {
          own.map.mark_clean(block->first + 2_g, 2_g);
          REQUIRE(own.map.free(block->first, PageMap::Left::kUnmarked) == block->second);
        } else {
          REQUIRE(own.map.free(block->first) == block->second);
        }
        own.index.defer(block->first);
        blocks.erase(block);
      } else {
        own.index.enter(UINT64_MAX);
        FreeIndex::Dirty dirty(own.index, Granules{1 + below(random, 50)});
        const PageMap::Run run = dirty.take();
        if (run.found()) {
          const Granules part{1 + below(random, run.count.count())};
          own.map.mark_clean(run.first, part);
          own.index.add(run.first, run.count);
        }
      }
      own.index.enter(below(random, 3));
      if (i % 20 == 0) {
        own.index.enter(UINT64_MAX);
        REQUIRE(own.index.valid(own.top));
      }
    }
  }
}

}  // namespace
}  // namespace memo
