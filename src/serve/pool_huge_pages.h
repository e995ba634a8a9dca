// Which part of an arena's space comes in huge pages: where these cost no memory, since a block is
// written whole. Weights are read in each iteration, and cost fewer misses of the TLB there. Hot.
//
// Nobody knows what a new block will have of it, so that it is some MiB at its start, and the next
// block has to wait until those are seen to be written (src/serve/written.h).
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "src/base/os.h"
#include "src/base/tuning.h"
#include "src/base/units.h"
#include "src/serve/space.h"

namespace memo {

class HugePages {
 public:
  // None was asked for from here on. Any thread.
  [[nodiscard]] Granules end() const { return end_.load(std::memory_order_relaxed); }
  // Before the first block.
  void allow() { allowed_ = true; }
  [[nodiscard]] bool allowed() const { return allowed_; }
  // A block may have some: what was advised last is written, or in use no more. Before the block is
  // claimed. The arena's owner.
  [[nodiscard]] bool ready(const Space& space) {
    if (unproven_.found() &&
        (!space.pages.states().all_used(unproven_.first, unproven_.count) || proven(space))) {
      unproven_ = {};
    }
    return allowed_ && !unproven_.found();
  }
  // Where those for a block up to `end`, new from `from` on, are to end; `from`: there are to be
  // none. Where it is ready(). The arena's owner.
  [[nodiscard]] Granules wanted(Granules from, Granules end) {
    const Granules first = round_up(from, kHugePage);
    const Granules to = std::min(end, round_down(from + kMost, kHugePage));
    if (first < to) {
      unproven_ = {first, to - first};
    }
    return std::max(from, to);
  }
  // Asks for huge pages from the first one that nobody has used yet, where granules from `top` on
  // were never used, up to `end`, a block's. The arena's owner.
  void advise(const Space& space, Granules top, Granules end) {
    const Granules from = round_up(top, kHugePage);
    const Granules to = round_up(end, kHugePage);
    if (allowed_ && from < to && os::advise_huge(space.address(from), bytes_of(to - from), true)) {
      raise(to);
    }
  }
  // There may be some up to `end`; the program may have asked for them itself. Any thread.
  void raise(Granules end) {
    Granules now = end_.load(std::memory_order_relaxed);
    while (now < end && !end_.compare_exchange_weak(now, end, std::memory_order_relaxed)) {
    }
  }
  // Memory was given back. What is used again there comes in small pages, until restore(): a huge
  // one would hold more than what is in use. Any thread.
  void take_out(const Space& space, Granules first, Granules count) {
    const Granules end = end_.load(std::memory_order_relaxed);
    Granules from = round_down(first, kHugePage);
    Granules to = std::min(round_up(first + count, kHugePage), end);
    if (from >= to) {
      return;
    }
    if (exceptions_.fetch_add(1, std::memory_order_relaxed) >= tuning::kMaxExceptions) {
      end_.store(Granules{0}, std::memory_order_relaxed);
      exceptions_.store(0, std::memory_order_relaxed);
      from = Granules{0};
      to = end;
    }
    os::advise_huge(space.address(from), bytes_of(to - from), false);
  }
  // A block of [first, end), of which hardly anything had memory, is written whole: the huge pages
  // that it covers hold no more than it does. A loop often begins in what its start gave back. The
  // arena's owner.
  void restore(const Space& space, Granules first, Granules end) {
    const Granules from = round_up(first, kHugePage);
    const Granules to = round_down(end, kHugePage);
    if (!allowed_ || from >= to) {
      return;
    }
    const Granules advised = end_.load(std::memory_order_relaxed);
    const std::uint32_t before = exceptions_.load(std::memory_order_relaxed);
    if (from == first && to == end && to <= advised) {  // one mapping with its neighbours again
      exceptions_.store(std::max(before, 1U) - 1, std::memory_order_relaxed);
    } else if (before >= tuning::kMaxExceptions) {
      return;
    } else {
      exceptions_.store(before + 1, std::memory_order_relaxed);
    }
    if (os::advise_huge(space.address(from), bytes_of(to - from), true)) {
      raise(to);
    }
  }
  // The memory from granule `end` on was given up, and the advice with it. The arena's owner.
  void retreat(Granules end) {
    end_.store(std::min(end_.load(std::memory_order_relaxed), round_up(end, kHugePage)),
               std::memory_order_relaxed);
  }

 private:
  static constexpr Granules kHugePage = granules_in(os::kHugePage);
  static constexpr Granules kMost = granules_in(tuning::kMaxUnwritten);

  [[nodiscard]] bool proven(const Space& space) const {
    const void* const start = space.address(unproven_.first);
    const std::uint64_t bytes = bytes_of(unproven_.count);
    return os::resident_bytes(start, bytes) == bytes && os::is_written(start, bytes);
  }

  PageMap::Run unproven_;

  bool allowed_ = false;
  std::atomic<Granules> end_;  // no granule from here on is in a huge page
  // Ranges below that were taken out, or restored in part. Freeing threads count at the same
  // time: about.
  std::atomic<std::uint32_t> exceptions_{0};
};

}  // namespace memo
