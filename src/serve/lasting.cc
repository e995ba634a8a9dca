#include "src/serve/lasting.h"

#include "src/base/os.h"

namespace memo {

// The next block on the walk; none where it ends.
PageMap::Run LastingBlocks::next(FreeRuns::Walk& walk) const {
  while (walk.at < walk.to && walk.steps != 0) {
    const Granules count = pool_.space().pages.length(walk.at);
    if (count != Granules{0}) {
      const PageMap::Run block{walk.at, count};
      walk.at += count;
      --walk.steps;
      return block;
    }
    static_cast<void>(pool_.space().runs.next_free(walk));  // which passes it
  }
  return {};
}

bool LastingBlocks::mark(Granules& at) {
  if (!pool_.enter()) {
    return false;
  }
  FreeRuns::Walk walk = walk_from(at);
  for (PageMap::Run block = next(walk); block.found(); block = next(walk)) {
    pool_.space().note(block.first).fetch_or(BlockNote::kLasts, std::memory_order_relaxed);
  }
  at = walk.at;
  return pool_.leave(walk.at < walk.to);
}

// Calls function(run) for rows of marked blocks side by side, at most so many a time, until one
// answers false. Under the pool's lock.
template <typename Function>
bool LastingBlocks::for_each_row(Granules& at, std::uint64_t most, Function&& function) const {
  if (!pool_.enter()) {
    return false;
  }
  FreeRuns::Walk walk = walk_from(at);
  PageMap::Run run;
  bool wanted = true;
  while (most != 0 && wanted) {
    const PageMap::Run block = next(walk);
    const bool marked = block.found() && pool_.note(pool_.space().address(block.first)).lasts();
    if (marked && run.end() == block.first) {
      run.count += block.count;
      continue;
    }
    if (run.found()) {
      wanted = function(run);
      --most;
    }
    run = marked ? block : PageMap::Run{};
    if (!block.found()) {
      break;
    }
  }
  // A row that was begun when no more were wanted is the next turn's.
  at = most == 0 && run.found() ? run.first : walk.at;
  return pool_.leave(wanted && at < walk.to);
}

bool LastingBlocks::offer(Granules& at, std::uint64_t& offered, bool& known) {
  // Each call may split a mapping.
  return for_each_row(at, tuning::kMaxRanges, [&](const PageMap::Run& run) {
    known = os::offer_for_merging(pool_.space().address(run.first), bytes_of(run.count));
    offered += known ? bytes_of(run.count) : 0;
    return known;
  });
}

bool LastingBlocks::list(Granules& at, List& found) {
  found.count = 0;
  return for_each_row(at, kMaxListed, [&](const PageMap::Run& run) {
    found.runs[found.count++] = run;
    return true;
  });
}

}  // namespace memo
