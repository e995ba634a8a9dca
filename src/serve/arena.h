// The page arena: serves large blocks that no plan places, in exact pages. Hot. One thread at a
// time allocates (src/serve/pool.h sees to it, and has several arenas); any thread frees.
//
// It keeps the memory of freed blocks, up to the peak that was alive at once in the recent past,
// and gives back what is more: a program whose peak repeats has no page faults, and never holds
// more than its peak. A slack on top is for streams in no order, whose blocks leave gaps that fit
// no other. Best fit keeps fragmentation low. Source: PRMalloc, 2.1-2.2 (the capacity of the pool
// is the learned concurrent demand; blocks are kept across iterations and given back beyond it),
// with pages in place of size bins.
//
// What a call costs follows from its own bytes, however many blocks there are: allocate() and
// resize() enter at most kCallWork freed blocks into the index of free runs, look at some hundred
// of its runs (src/serve/free_index.h), and give back at most 4 MiB more than the block's bytes, in
// at most 64 ranges more than its granules, and the one block that was freed as spare. free()
// touches its block's granules only. trim() is bounded in the same way by the bytes that it is
// told, or does all of it, on a thread that has the time. Checked by valid().
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "src/base/backoff.h"
#include "src/base/tuning.h"
#include "src/base/units.h"
#include "src/serve/free_index.h"
#include "src/serve/headroom.h"
#include "src/serve/held_memory.h"
#include "src/serve/long_lived_huge_pages.h"
#include "src/serve/pool_huge_pages.h"
#include "src/serve/shares.h"
#include "src/serve/space.h"

namespace memo {

// A block that was just freed and is not worth keeping, unless the next one takes its place. Any
// thread offers one; the arena's owner takes it.
class Spare {
 public:
  // False where another one waits, or the block is too long.
  bool offer(Granules first, Granules count) {
    std::uint64_t none = 0;
    return bytes_of(count) <= tuning::kMaxGivenBack && count.count() <= kMost &&
           at_.compare_exchange_strong(none, (first.count() << kBits) | count.count(),
                                       std::memory_order_release, std::memory_order_relaxed);
  }
  [[nodiscard]] bool any() const { return at_.load(std::memory_order_relaxed) != 0; }
  [[nodiscard]] PageMap::Run take() {
    const std::uint64_t word = at_.exchange(0, std::memory_order_acquire);
    return {Granules{word >> kBits}, Granules{word & kMost}};
  }

 private:
  static constexpr unsigned kBits = 24;
  static constexpr std::uint64_t kMost = (std::uint64_t{1} << kBits) - 1;
  std::atomic<std::uint64_t> at_{0};  // first granule and number of them
};

// What arenas know together.
struct ArenaBooks {
  HeldMemory held;
  Shares shares;
  AheadWindow ahead;
  Headroom headroom;
  // What a block has written is looked at when it is freed. Else all of it counts as written.
  bool looks = true;
};

class Arena {
 public:
  // `books` outlive this. `huge`: blocks that nobody has used before may come in huge pages
  // (src/serve/pool_huge_pages.h).
  void open(Space* space, ArenaBooks* books, bool huge = false);

  struct Block {
    void* start = nullptr;  // nullptr: no memory
    bool zero = false;      // every byte is known to be zero
    bool resident = false;  // all of it has memory already: no page fault will follow
    bool busy = false;      // there is none because others were at the arena for long
    bool full = false;      // there is none because its addresses are used up
    std::uint64_t lacking =
        0;  // bytes of it that have no memory yet, and are expected to be written
  };
  // A block of `bytes` at a multiple of `alignment` (a power of two). `from`: only where there is
  // memory for it, or anywhere. One thread at a time.
  enum class From : std::uint8_t { kAnywhere, kMemory };
  Block allocate(std::uint64_t bytes, std::uint64_t alignment, From from = From::kAnywhere);
  // Changes the size of the block at `start` in place, if there is room: bytes that it gets and
  // that had no memory. One thread at a time.
  std::optional<std::uint64_t> resize(void* start, std::uint64_t bytes);
  // Releases the block that starts at `start`; false if none does. Any thread.
  // `at_once`: its memory goes back to the system, whatever the peak. `spare`: it goes back with
  // the next call, unless that takes its place, or another block waits in the same way.
  bool free(void* start, bool at_once = false, bool spare = false) {
    return free(start, at_once, spare, books_->looks);
  }
  // One whose pages are not what the program has written: they go back without a look.
  bool free_bare(void* start) { return free(start, true, false, false); }

  // What is free of [first, end) is never given out: others have the addresses now. Owner only.
  void keep_out(Granules first, Granules end);

  static constexpr std::uint64_t kAll = UINT64_MAX;
  // Gives back the memory of `granules` free ones, up to `bytes` of it; how many bytes. Owner only.
  std::uint64_t trim(Granules granules, std::uint64_t bytes = kAll);
  // The system may take what is free when it needs some. A part from `from` on, as the space's.
  // Owner only.
  Granules free_lazily(Granules from) const {
    return space_->free_lazily(std::min(from, top_), top_);
  }
  // What was ahead and has gone leaves room for others; bytes that are ahead still. Owner only.
  std::uint64_t look_ahead() { return huge_pages.look(*space_, books_->ahead, top_); }
  // Gives up the committed memory behind the last block, which trim() has given back; bytes. Owner
  // only.
  std::uint64_t retreat();
  // Free runs that all calls have looked at so far. Owner only.
  [[nodiscard]] std::uint64_t looks() const { return free_.looks(); }
  // True if page map and index agree. Looks at all of it, and tells how much is used and dirty; no
  // other thread may be at work.
  [[nodiscard]] bool valid(PageMap::Sums& sums);

  // Which part of it comes in huge pages. The owner changes it, any thread asks for its end.
  HugePages huge_pages;
  // And what of it comes in them later. The owner notes, the background thread looks.
  LongLived long_lived;

 private:
  FreeIndex::Place find(Granules count, Granules written, Granules step, From from) const;
  std::optional<FreeIndex::Place> place_in_spare(Granules count, Granules step);
  void enter_all();
  Granules give_back(PageMap::Run run);
  Granules give_back_runs(Granules granules, std::uint64_t ranges);
  // What a block that is taken finds: what is expected of its size, how many of the granules that
  // it will write have memory, and how many from the first one on.
  using Share = Shares::Share;
  struct Met {
    Share share;
    Granules dirty = {};
    Granules there = {};
  };
  void account(Granules first, PageMap::Claim& claim, Granules count, Met& met);
  [[nodiscard]] bool holds_more(Granules first, Granules count, Granules right,
                                Granules written) const;
  void give_excess_back(Granules count);
  void judge(Granules taken, Granules given);
  void forget_spared(Granules first, Granules count);
  void shrink(Granules first, Granules now, Granules left);
  bool free(void* start, bool at_once, bool spare, bool looks);
  Granules spare_unwritten(Granules first, Granules length, bool all);
  bool learn(Granules first, Granules length, Granules there, bool in_order);
  [[nodiscard]] std::atomic_ref<std::uint16_t> expectation(Granules first) const {
    return space_->note(first + Granules{1});
  }
  // And what had memory when the block was taken, beyond that.
  [[nodiscard]] std::atomic_ref<std::uint16_t> beyond(Granules first) const {
    return space_->note(first + Granules{2});
  }
  // What is noted of a block of Shares::kLeast and more, as it is taken: how many of its granules
  // have memory already, from the first one on; by how many it raises the pool's peak; the peak.
  enum class Noted : std::uint8_t { kThereBefore = 3, kRaised = 5, kPeak = 7 };
  void note(Granules first, Noted which, Granules number) {
    for (unsigned half = 0; half < 2; ++half) {
      const auto bits = static_cast<std::uint16_t>(number.count() >> 16U * half);
      const Granules at = first + Granules{static_cast<unsigned>(which) + half};
      space_->note(at).store(bits, std::memory_order_relaxed);
    }
  }
  [[nodiscard]] Granules noted(Granules first, Noted which) const {
    const Granules at = first + Granules{static_cast<unsigned>(which)};
    const std::uint64_t low = space_->note(at).load(std::memory_order_relaxed);
    const std::uint64_t high = space_->note(at + Granules{1}).load(std::memory_order_relaxed);
    return Granules{high << 16U | low};
  }
  // Of a block of Shares::kLeast and more.
  void expect(Granules first, Expected expected, Expected stale) {
    expectation(first).store(expected.word(), std::memory_order_relaxed);
    beyond(first).store(stale.word(), std::memory_order_relaxed);
  }
  void overestimated(Granules first, Granules count);
  // Granules of the block that count as unwritten, and those that others wrote and it will not.
  [[nodiscard]] Granules spared(Granules first, Granules count) const {
    return count < Shares::kLeast
               ? Granules{0}
               : count - Expected(expectation(first).load(std::memory_order_relaxed)).of(count);
  }
  [[nodiscard]] Granules stale(Granules first, Granules count) const {
    return count < Shares::kLeast
               ? Granules{0}
               : Expected(beyond(first).load(std::memory_order_relaxed)).of(count);
  }

  Space* space_ = nullptr;
  Granules top_;  // granules from here on were never used
  FreeIndex free_;
  ArenaBooks* books_ = nullptr;
  // Since the peak is that, or it was last judged whether memory goes and comes back.
  struct {
    Granules peak, taken, given;
  } judged_;
  Backoff refusals_;  // of the system to take memory back
  Backoff moves_;     // blocks that find none of the earlier pages, until one is to show whether so
  Spare spare_;
};

}  // namespace memo
