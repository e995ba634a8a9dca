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
  explicit Model(std::uint64_t granules) : dirty_(granules) {}

  [[nodiscard]] bool used(std::uint64_t granule) const {
    auto block = blocks.upper_bound(granule);
    return block != blocks.begin() && granule < (--block)->first + block->second;
  }
  [[nodiscard]] bool free(std::uint64_t first, std::uint64_t count) const {
    const auto next = blocks.lower_bound(first);
    return !used(first) && (next == blocks.end() || next->first >= first + count);
  }
  [[nodiscard]] std::uint64_t dirty(std::uint64_t first, std::uint64_t count) const {
    std::uint64_t sum = 0;
    for (std::uint64_t i = first; i < first + count; ++i) {
      sum += dirty_[i] ? 1U : 0U;
    }
    return sum;
  }
  void set_dirty(std::uint64_t first, std::uint64_t count, bool value) {
    for (std::uint64_t i = first; i < first + count; ++i) {
      dirty_[i] = value;
    }
  }
  [[nodiscard]] std::uint64_t used_granules() const {
    std::uint64_t sum = 0;
    for (const auto& [first, count] : blocks) {
      sum += count;
    }
    return sum;
  }
  // The free run that begins at or after `from`, cut at `to`.
  [[nodiscard]] PageMap::Run next_free(std::uint64_t from, std::uint64_t to) const {
    while (from < to && used(from)) {
      ++from;
    }
    std::uint64_t end = from;
    while (end < to && !used(end)) {
      ++end;
    }
    return end > from ? PageMap::Run{from, end - from} : PageMap::Run{};
  }
  [[nodiscard]] PageMap::Run next_dirty(std::uint64_t from, std::uint64_t to,
                                        std::uint64_t most) const {
    const auto fits = [&](std::uint64_t at) { return at < to && !used(at) && dirty_[at]; };
    while (from < to && !fits(from)) {
      ++from;
    }
    std::uint64_t end = from;
    while (fits(end) && end - from < most) {
      ++end;
    }
    return end > from ? PageMap::Run{from, end - from} : PageMap::Run{};
  }
  [[nodiscard]] PageMap::Run best_fit(std::uint64_t from, std::uint64_t to, std::uint64_t count,
                                      std::uint64_t alignment) const {
    PageMap::Run best;
    std::pair<std::uint64_t, std::uint64_t> least(UINT64_MAX, UINT64_MAX);  // clean, length of run
    for (PageMap::Run run = next_free(from, to); run.count != 0;
         run = next_free(run.first + run.count, to)) {
      const std::uint64_t end = run.first + run.count;
      const std::uint64_t low = (run.first + alignment - 1) / alignment * alignment;
      if (low + count > end) {
        continue;
      }
      std::uint64_t again = run.first;  // where memory begins behind the first clean granules
      while (again < end && dirty_[again]) {
        ++again;
      }
      while (again < end && !dirty_[again]) {
        ++again;
      }
      const std::uint64_t high = std::min(again, end - count) / alignment * alignment;
      for (const std::uint64_t start : {low, std::max(low, high)}) {
        const std::pair here(count - dirty(start, count), run.count);
        if (here < least) {
          best = {start, count};
          least = here;
        }
      }
    }
    return best;
  }

  std::map<std::uint64_t, std::uint64_t> blocks;  // first -> count

 private:
  std::vector<bool> dirty_;
};

void same(const PageMap::Run& run, const PageMap::Run& expected) {
  REQUIRE(run.count == expected.count);
  if (run.count != 0) {
    REQUIRE(run.first == expected.first);
  }
}

struct World {
  std::uint64_t granules;
  testing::BareMap bare{granules};
  PageMap& map = bare.map;
  const FreeRuns& runs = bare.runs;
  Model model{granules};
  Random random;

  std::uint64_t length(std::uint64_t first) {
    const std::uint64_t most = granules - first;
    return 1 + below(random, below(random, 4) == 0 ? most : std::min<std::uint64_t>(most, 20));
  }
  void claim() {
    const std::uint64_t first = below(random, granules);
    const std::uint64_t count = length(first);
    const PageMap::Claim claim = map.claim(first, count);
    REQUIRE(claim.granted == model.free(first, count));
    if (claim.granted) {
      REQUIRE(claim.dirty == model.dirty(first, count));
      runs.note_claimed(first, count);
      model.blocks[first] = count;
      model.set_dirty(first, count, true);
    }
  }
  void release() {
    const std::uint64_t first = some_granule();
    const auto block = model.blocks.find(first);
    runs.note_free(first, map.length(first), false);
    REQUIRE(map.release(first) == (block == model.blocks.end() ? 0 : block->second));
    if (block != model.blocks.end()) {
      model.blocks.erase(block);
    }
  }
  void resize() {
    const auto block = model.blocks.lower_bound(below(random, granules));
    if (block == model.blocks.end()) {
      return;
    }
    const auto [first, now] = *block;
    const std::uint64_t count = length(first);
    if (count < now) {
      REQUIRE(map.shrink(first, count) == now - count);
      block->second = count;
    } else if (count > now) {
      const PageMap::Claim claim = map.extend(first, count);
      REQUIRE(claim.granted == model.free(first + now, count - now));
      if (claim.granted) {
        REQUIRE(claim.dirty == model.dirty(first + now, count - now));
        runs.note_claimed(first + now, count - now);
        block->second = count;
        model.set_dirty(first, count, true);
      }
    }
  }
  void clean() {
    const std::uint64_t most = below(random, 2) == 0 ? 10 : granules;
    const PageMap::Run run = model.next_dirty(below(random, granules), granules, most);
    if (run.count != 0) {
      bare.mark_clean(run.first, run.count);
      model.set_dirty(run.first, run.count, false);
    }
  }
  void look() {
    const std::uint64_t from = below(random, granules);
    const std::uint64_t to = from + below(random, granules - from + 1);
    const std::uint64_t count = 1 + below(random, 12);
    const std::uint64_t alignment = 1ULL << below(random, 5);
    same(runs.next_free(from, to), model.next_free(from, to));
    same(runs.next_dirty(from, to, count), model.next_dirty(from, to, count));
    same(runs.best_fit(from, to, count, alignment), model.best_fit(from, to, count, alignment));
    const std::uint64_t granule = some_granule();
    const auto block = model.blocks.find(granule);
    REQUIRE(map.length(granule) == (block == model.blocks.end() ? 0 : block->second));
  }

 private:
  // The start of a block more often than not.
  std::uint64_t some_granule() {
    const std::uint64_t granule = below(random, granules);
    const auto block = model.blocks.lower_bound(granule);
    return below(random, 3) == 0 || block == model.blocks.end() ? granule : block->first;
  }
};

TEST_CASE("page map: does what a map of intervals does", "[serve][property]") {
  for (const std::uint64_t seed : testing::seeds(12)) {
    INFO("seed " << seed);
    Random random(seed);
    // A third of them with room for whole chunks.
    const std::uint64_t most = seed % 3 == 0 ? 4 * FreeChunks::kChunk : 300;
    World world{.granules = 1 + below(random, most), .random = random};
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
      REQUIRE(world.runs.valid(world.granules));
      REQUIRE(sums.used == world.model.used_granules());
    }
  }
}

}  // namespace
}  // namespace memo
