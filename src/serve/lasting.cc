#include "src/serve/lasting.h"

#include "src/base/os.h"

namespace memo {

// The next block on the walk; none where it ends.
PageMap::Run LastingBlocks::next(FreeRuns::Walk& walk) const {
  while (walk.at < walk.to && walk.steps != 0) {
    const std::uint64_t count = pool_.space().pages.length(walk.at);
    if (count != 0) {
      const PageMap::Run block{walk.at, count};
      walk.at += count;
      --walk.steps;
      return block;
    }
    static_cast<void>(pool_.space().runs.next_free(walk));  // which passes it
  }
  return {};
}

bool LastingBlocks::mark(std::uint64_t& at) {
  if (!pool_.enter()) {
    return false;
  }
  FreeRuns::Walk walk = walk_from(at);
  for (PageMap::Run block = next(walk); block.count != 0; block = next(walk)) {
    pool_.space().owner(block.first).fetch_or(Pool::kMarked, std::memory_order_relaxed);
  }
  at = walk.at;
  return pool_.leave(walk.at < walk.to);
}

bool LastingBlocks::offer(std::uint64_t& at, std::uint64_t& offered, bool& known) {
  if (!pool_.enter()) {
    return false;
  }
  FreeRuns::Walk walk = walk_from(at);
  PageMap::Run run;  // of marked blocks side by side: each call may split a mapping
  const auto offer = [&] {
    if (run.count != 0) {
      known = os::offer_for_merging(pool_.space().address(run.first), run.count * kGranule);
      offered += known ? run.count * kGranule : 0;
    }
  };
  std::uint64_t ranges = tuning::kMaxRanges;
  while (ranges != 0 && known) {
    const PageMap::Run block = next(walk);
    const bool marked =
        block.count != 0 &&
        (pool_.space().owner(block.first).load(std::memory_order_relaxed) & Pool::kMarked) != 0;
    if (marked && run.first + run.count == block.first) {
      run.count += block.count;
      continue;
    }
    offer();
    ranges -= run.count != 0 ? 1 : 0;
    run = marked ? block : PageMap::Run{};
    if (block.count == 0) {
      break;
    }
  }
  // A run that was begun when the ranges were used up is the next turn's.
  at = ranges == 0 && run.count != 0 ? run.first : walk.at;
  return pool_.leave(known && at < walk.to);
}

}  // namespace memo
