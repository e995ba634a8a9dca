// Which part of an arena's space comes in huge pages: where these cost no memory, since a block is
// written whole. Weights are read in each iteration, and cost fewer misses of the TLB there. Hot.
//
// Nobody knows how much of a new block will be written: src/serve/ahead.h says how much of it comes
// so.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "src/base/os.h"
#include "src/base/tuning.h"
#include "src/base/units.h"
#include "src/serve/ahead.h"
#include "src/serve/space.h"

namespace memo {

class HugePages {
 public:
  // None was asked for from here on. Any thread.
  [[nodiscard]] Granules end() const { return end_.load(std::memory_order_relaxed); }
  // Before the first block.
  void allow() { allowed_ = true; }
  [[nodiscard]] bool allowed() const { return allowed_; }
  // Asks for some from the first one on that nobody has used yet, where granules from `top` on were
  // never used, for a block up to `end`; `alive` bytes are in blocks. The last one is the next
  // block's, too, if that follows: until then it is ahead. The arena's owner.
  void advise(const Space& space, AheadWindow& window, std::uint64_t alive, Granules top,
              Granules end) {
    ask(space, ahead_.take(space, window, alive, top, round_up(end, kHugePage), top));
  }
  // Bytes that are ahead, when all of it was looked at, as Ahead::look(). The arena's owner.
  std::uint64_t look(const Space& space, AheadWindow& window, Granules top) {
    return ahead_.look(space, window, top);
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
  // The same for a block of [first, end) of which hardly anything has memory: the huge pages that
  // it covers. A loop often begins in what its start gave back. From `top` on nobody has used any.
  // The arena's owner.
  void restore(const Space& space, AheadWindow& window, std::uint64_t alive, Granules first,
               Granules end, Granules top) {
    const Granules advised = end_.load(std::memory_order_relaxed);
    const std::uint32_t before = exceptions_.load(std::memory_order_relaxed);
    const bool whole = first == round_up(first, kHugePage) && end == round_down(end, kHugePage);
    if (before >= tuning::kMaxExceptions && (!whole || end > advised)) {
      return;
    }
    const PageMap::Run run =
        ahead_.take(space, window, alive, first, round_down(end, kHugePage), top);
    if (!run.found()) {
      return;
    }
    // One mapping with its neighbours again, or another exception.
    const bool merges = whole && run.end() == end && end <= advised;
    exceptions_.store(merges ? std::max(before, 1U) - 1 : before + 1, std::memory_order_relaxed);
    ask(space, run);
  }
  // The memory from granule `end` on was given up, and the advice with it. The arena's owner.
  void retreat(Granules end) {
    end_.store(std::min(end_.load(std::memory_order_relaxed), round_up(end, kHugePage)),
               std::memory_order_relaxed);
  }

 private:
  void ask(const Space& space, PageMap::Run run) {
    if (run.found() && os::advise_huge(space.address(run.first), bytes_of(run.count), true)) {
      raise(run.end());
    }
  }

  Ahead ahead_;
  bool allowed_ = false;
  std::atomic<Granules> end_;  // no granule from here on is in a huge page
  // Ranges below that were taken out, or restored in part. Freeing threads count at the same
  // time: about.
  std::atomic<std::uint32_t> exceptions_{0};
};

}  // namespace memo
