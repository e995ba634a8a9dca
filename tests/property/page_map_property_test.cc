// The page map against a map of intervals and a set of dirty granules, under random operations.
#include <catch2/catch.hpp>
#include <map>
#include <utility>
#include <vector>

#include "src/serve/page_map.h"
#include "tests/support/process.h"
#include "tests/support/spaces.h"

namespace memo {
namespace {

using testing::below;
using testing::Random;

class Model {
 public:
  explicit Model(Granules granules) : dirty_(granules.count()) {}

  [[nodiscard]] bool used(Granules granule) const {
    auto block = blocks.upper_bound(granule);
    if (block == blocks.begin()) {
      return false;
    }
    --block;
    return granule < block->first + block->second;
  }
  [[nodiscard]] bool free(Granules first, Granules count) const {
    const auto next = blocks.lower_bound(first);
    return !used(first) && (next == blocks.end() || next->first >= first + count);
  }
  [[nodiscard]] Granules dirty(Granules first, Granules count) const {
    Granules sum;
    for (Granules i = first; i < first + count; ++i) {
      sum += is_dirty(i) ? 1_g : 0_g;
    }
    return sum;
  }
  void set_dirty(Granules first, Granules count, bool value) {
    for (Granules i = first; i < first + count; ++i) {
      dirty_[i.count()] = value;
    }
  }
  [[nodiscard]] Granules used_granules() const {
    Granules sum;
    for (const auto& [first, count] : blocks) {
      sum += count;
    }
    return sum;
  }
  // The free run that begins at or after `from`, cut at `to`.
  [[nodiscard]] PageMap::Run next_free(Granules from, Granules to) const {
    while (from < to && used(from)) {
      ++from;
    }
    Granules end = from;
    while (end < to && !used(end)) {
      ++end;
    }
    return end > from ? PageMap::Run{from, end - from} : PageMap::Run{};
  }
  [[nodiscard]] PageMap::Run next_dirty(Granules from, Granules to, Granules most) const {
    const auto fits = [&](Granules at) { return at < to && !used(at) && is_dirty(at); };
    while (from < to && !fits(from)) {
      ++from;
    }
    Granules end = from;
    while (fits(end) && end - from < most) {
      ++end;
    }
    return end > from ? PageMap::Run{from, end - from} : PageMap::Run{};
  }

  std::map<Granules, Granules> blocks;  // first -> count

 private:
  [[nodiscard]] bool is_dirty(Granules at) const { return dirty_[at.count()]; }

  std::vector<bool> dirty_;
};

void same(const PageMap::Run& run, const PageMap::Run& expected) {
  REQUIRE(run.count == expected.count);
  if (run.found()) {
    REQUIRE(run.first == expected.first);
  }
}

// One of the first `end`.
Granules some_of(Random& random, Granules end) {
  return Granules{below(random, end.count())};
}

struct World {
  Granules granules;
  testing::BareMap bare{granules};
  PageMap& map = bare.map;
  Model model{granules};
  Random random;

  Granules length(Granules first) {
    const Granules most = granules - first;
    return 1_g + some_of(random, below(random, 4) == 0 ? most : std::min(most, 20_g));
  }
  void claim() {
    const Granules first = some_of(random, granules);
    const Granules count = length(first);
    const PageMap::Claim claim = map.claim(first, count);
    REQUIRE(claim.granted == model.free(first, count));
    if (claim.granted) {
      REQUIRE(claim.dirty == model.dirty(first, count));
      model.blocks[first] = count;
      model.set_dirty(first, count, true);
    }
  }
  void release() {
    const Granules first = some_granule();
    const auto block = model.blocks.find(first);
    REQUIRE(map.free(first) == (block == model.blocks.end() ? 0_g : block->second));
    if (block != model.blocks.end()) {
      model.blocks.erase(block);
    }
  }
  void resize() {
    const auto block = model.blocks.lower_bound(some_of(random, granules));
    if (block == model.blocks.end()) {
      return;
    }
    const auto [first, now] = *block;
    const Granules count = length(first);
    if (count < now) {
      map.shrink(first, count);
      REQUIRE(map.length(first) == count);
      block->second = count;
    } else if (count > now) {
      const PageMap::Claim claim = map.extend(first, count);
      REQUIRE(claim.granted == model.free(first + now, count - now));
      if (claim.granted) {
        REQUIRE(claim.dirty == model.dirty(first + now, count - now));
        block->second = count;
        model.set_dirty(first, count, true);
      }
    }
  }
  void clean() {
    const Granules most = below(random, 2) == 0 ? 10_g : granules;
    const PageMap::Run run = model.next_dirty(some_of(random, granules), granules, most);
    if (run.found()) {
      map.mark_clean(run.first, run.count);
      model.set_dirty(run.first, run.count, false);
    }
  }
  void look() {
    const Granules from = some_of(random, granules);
    const Granules to = from + some_of(random, granules - from + 1_g);
    same(map.next_free(from, to), model.next_free(from, to));
    const Granules granule = some_granule();
    const auto block = model.blocks.find(granule);
    REQUIRE(map.length(granule) == (block == model.blocks.end() ? 0_g : block->second));
  }

 private:
  // The start of a block more often than not.
  Granules some_granule() {
    const Granules granule = some_of(random, granules);
    const auto block = model.blocks.lower_bound(granule);
    return below(random, 3) == 0 || block == model.blocks.end() ? granule : block->first;
  }
};

TEST_CASE("page map: does what a map of intervals does", "[serve][property]") {
  for (const std::uint64_t seed : testing::seeds(12)) {
    INFO("seed " << seed);
    Random random(seed);
    const Granules most = seed % 3 == 0 ? 2048_g : 300_g;
    World world{.granules = 1_g + some_of(random, most), .random = random};
    for (int i = 0; i < 3000; ++i) {
      switch (below(world.random, 8)) {
        case 0:
        case 1:
        case 2:
          world.claim();
          break;
        case 3:
        case 4:
          world.release();
          break;
        case 5:
          world.resize();
          break;
        case 6:
          world.clean();
          break;
        default:
          world.look();
      }
      PageMap::Sums sums;
      REQUIRE(world.map.valid(world.granules, &sums));
      REQUIRE(sums.used == world.model.used_granules());
    }
  }
}

}  // namespace
}  // namespace memo
