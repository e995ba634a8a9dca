// The pool's blocks that last, such as weights: those that are marked once and not freed since. A
// mark lies in the note of the block's owner, which each allocation writes anew. Hot; only the
// background thread comes here.
#pragma once

#include <cstdint>

#include "src/serve/pool.h"

namespace memo {

// Both walks go on where `at` says, a bounded way under the pool's lock; false where a
// walk has come to the end, or where nobody gets at the pool.
class LastingBlocks {
 public:
  static constexpr std::uint32_t kMaxListed = 64;
  explicit LastingBlocks(const Pool& pool) : pool_(pool) {}
  // Marks the blocks that are alive: each until it is freed.
  bool mark(Granules& at);
  // Offers the memory of blocks that are marked still to the kernel's same-page merging, and adds
  // their bytes to `offered`. `known`: false if the kernel has no such merging.
  bool offer(Granules& at, std::uint64_t& offered, bool& known);
  // Lists rows of blocks that are marked still, side by side: at most kMaxListed a time.
  struct List {
    std::uint32_t count = 0;
    PageMap::Run runs[kMaxListed];  // granules of the pool
  };
  bool list(Granules& at, List& found);

 private:
  PageMap::Run next(FreeRuns::Walk& walk) const;
  template <typename Function>
  bool for_each_row(Granules& at, std::uint64_t most, Function&& function) const;
  [[nodiscard]] FreeRuns::Walk walk_from(Granules at) const {
    return {at, granules_in(pool_.space().committed_bytes()), tuning::kMaxWalkSteps};
  }

  const Pool& pool_;
};

}  // namespace memo
