// Where a block is placed; and which block a pointer lies in, or lay in: for messages about misuse.
// Hot.
#include <algorithm>

#include "src/base/tuning.h"
#include "src/serve/page_map.h"

namespace memo {

PageMap::Run PageMap::next_free(Walk& walk) const {
  while (walk.at < walk.to && walk.steps != 0) {
    --walk.steps;
    const std::uint64_t at = walk.at;
    const std::uint8_t bits = state(at);
    if ((bits & kUsed) == 0) {
      walk.at = end_of(Kind::kFree, at, walk);
      return {at, walk.at - at};
    }
    walk.at += (bits & kStart) != 0 ? length_[at] : 1;
  }
  return {};
}

PageMap::Run PageMap::best_fit(Walk& walk, std::uint64_t count, std::uint64_t alignment) const {
  constexpr std::uint64_t kWord = 8;  // granules a step
  Run best;
  std::uint64_t best_clean = UINT64_MAX;
  std::uint64_t best_slack = UINT64_MAX;
  // Places the block at `start` of a run with `slack`, if that is better; whether it lacks memory.
  const auto weigh = [&](std::uint64_t start, std::uint64_t slack) {
    const Claim claim = look(start, count);
    walk.steps -= std::min(walk.steps, count / kWord);
    const std::uint64_t clean = count - claim.dirty;
    // It is not granted where a block is just being released.
    if (claim.granted && (clean < best_clean || (clean == best_clean && slack < best_slack))) {
      best = {start, count};
      best_clean = clean;
      best_slack = slack;
    }
    return clean != 0;
  };
  // Where memory begins again behind a run's first clean granules; its end if it does not.
  const auto next_stretch = [&](const Run& run) {
    Walk inside{run.first, run.first + run.count, walk.steps};
    if (state(inside.at) != 0) {
      inside.at = end_of(Kind::kDirty, inside.at, inside);
    }
    if (inside.at < inside.to && inside.steps != 0) {
      inside.at = end_of(Kind::kClean, inside.at, inside);
    }
    walk.steps = inside.steps;
    return inside.at;
  };
  for (Run run = next_free(walk); run.count != 0; run = next_free(walk)) {
    const std::uint64_t low = (run.first + alignment - 1) & ~(alignment - 1);
    const std::uint64_t end = run.first + run.count;
    if (low + count > end) {
      continue;
    }
    const std::uint64_t slack = run.count - count;
    if (weigh(low, slack)) {
      const std::uint64_t high = std::min(next_stretch(run), end - count) & ~(alignment - 1);
      if (high > low) {
        weigh(high, slack);
      }
    }
    if (best_clean == 0 && best_slack == 0) {
      break;
    }
  }
  return best;
}

PageMap::Run PageMap::block_at(std::uint64_t granule) const {
  const std::uint64_t least = granule < tuning::kMaxLookBack ? 0 : granule - tuning::kMaxLookBack;
  for (std::uint64_t at = granule; (state(at) & kUsed) != 0; --at) {
    if ((state(at) & kStart) != 0) {
      return length_[at] > granule - at ? Run{at, length_[at]} : Run{};
    }
    if (at == least) {
      break;
    }
  }
  return {};
}

std::uint64_t PageMap::freed_length(std::uint64_t granule) const {
  return (state(granule) & kUsed) == 0 ? length_[granule] : 0;
}

}  // namespace memo
