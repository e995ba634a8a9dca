// The pool's blocks that last, such as weights. Hot; only the background thread comes here.
#include "src/serve/pool.h"

#include "src/base/os.h"

namespace memo {

// The next block on the walk; none where it ends.
PageMap::Run Pool::next_block(PageMap::Walk& walk) const {
  while (walk.at < walk.to && walk.steps != 0) {
    const std::uint64_t count = space_->pages.length(walk.at);
    if (count != 0) {
      const PageMap::Run block{walk.at, count};
      walk.at += count;
      --walk.steps;
      return block;
    }
    static_cast<void>(space_->pages.next_free(walk));  // which passes it
  }
  return {};
}

bool Pool::mark(std::uint64_t& at) {
  if (!enter()) {
    return false;
  }
  PageMap::Walk walk = walk_from(at);
  for (PageMap::Run block = next_block(walk); block.count != 0; block = next_block(walk)) {
    note_of(block.first).fetch_or(kMarked, std::memory_order_relaxed);
  }
  at = walk.at;
  return leave(walk.at < walk.to);
}

bool Pool::offer_marked(std::uint64_t& at, std::uint64_t& offered, bool& known) {
  if (!enter()) {
    return false;
  }
  PageMap::Walk walk = walk_from(at);
  PageMap::Run run;  // of marked blocks side by side: each call may split a mapping
  const auto offer = [&] {
    if (run.count != 0) {
      known = os::offer_for_merging(space_->address(run.first), run.count * kGranule);
      offered += known ? run.count * kGranule : 0;
    }
  };
  std::uint64_t ranges = tuning::kMaxRanges;
  while (ranges != 0 && known) {
    const PageMap::Run block = next_block(walk);
    const bool marked =
        block.count != 0 && (note_of(block.first).load(std::memory_order_relaxed) & kMarked) != 0;
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
  return leave(known && at < walk.to);
}

}  // namespace memo
