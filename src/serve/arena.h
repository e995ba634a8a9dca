// The page arena: serves large blocks that no plan places, in exact pages. Hot. One thread at a
// time allocates (src/serve/pool.h sees to it); any thread frees.
//
// It keeps the memory of freed blocks, up to the peak that was alive at once in the recent past,
// and gives back what is more: a program whose peak repeats has no page faults, and never holds
// more than its peak. A slack on top is for streams in no order, whose blocks leave gaps that fit
// no other. Best fit over the page map keeps fragmentation low, and addresses dense. Source:
// PRMalloc, 2.1-2.2 (the capacity of the pool is the learned concurrent demand; blocks are kept
// across iterations and given back beyond it), with pages in place of size bins.
//
// What a call costs follows from its own bytes, whatever was allocated before: allocate() and
// resize() make at most three walks to find a place and two to give memory back, each of kMaxWalkSteps
// steps and kWalkStepsPerWord for each 32 KiB of the block (a step is a block, a free run, or a word of
// the page map: src/serve/free_runs.h); they give back at most 4 MiB more than the block's bytes, in
// at most 64 ranges more than its granules, and once what spare() was told of. Walks that end go on
// where they stopped. free() touches its block's granules only. trim() and age() are bounded in the same way by the bytes that they
// are told, or do all of it, as settle() does, on a thread that has the time. Checked by valid().
#pragma once

#include <atomic>
#include <cstdint>

#include "src/base/backoff.h"
#include "src/base/granule.h"
#include "src/base/tuning.h"
#include "src/serve/holding.h"
#include "src/serve/huge_pages.h"
#include "src/serve/shares.h"
#include "src/serve/space.h"

namespace memo {

// No granule below it is free. Any thread lowers it; the arena's owner raises it.
class LowestFree {
 public:
  [[nodiscard]] Granules get() const { return at_.load(std::memory_order_acquire); }
  void lower(Granules first) {
    Granules lowest = at_.load(std::memory_order_relaxed);
    while (first < lowest && !at_.compare_exchange_weak(lowest, first, std::memory_order_acq_rel)) {
    }
  }
  // [first, end) was taken.
  void take(Granules first, Granules end) {
    if (first == at_.load(std::memory_order_relaxed)) {
      Granules expected = first;  // another thread may have freed something lower meanwhile
      at_.compare_exchange_strong(expected, end, std::memory_order_acq_rel);
    }
  }

 private:
  std::atomic<Granules> at_;
};

// A block that was just freed and is not worth keeping, unless the next one takes its place. Any thread offers one; the
// arena's owner takes it.
class Spare {
 public:
  // False where another one waits, or the block is too long.
  bool offer(Granules first, Granules count) {
    std::uint64_t none = 0;
    return bytes_of(count) <= tuning::kMaxGivenBack && count.count() <= kMost &&
           at_.compare_exchange_strong(none, (first.count() << kBits) | count.count(),
                                       std::memory_order_relaxed);
  }
  [[nodiscard]] bool any() const { return at_.load(std::memory_order_relaxed) != 0; }
  [[nodiscard]] FreeRuns::Walk walk() const {
    const std::uint64_t word = at_.load(std::memory_order_relaxed);
    const Granules first{word >> kBits};
    return {first, first + Granules{word & kMost}};
  }
  // A block of `count` granules would fill most of it.
  [[nodiscard]] bool suits(Granules count) const {
    const Granules room{at_.load(std::memory_order_relaxed) & kMost};
    return count <= room && room <= 2 * count;
  }
  void clear() { at_.store(0, std::memory_order_relaxed); }

 private:
  static constexpr unsigned kBits = 24;
  static constexpr std::uint64_t kMost = (std::uint64_t{1} << kBits) - 1;
  std::atomic<std::uint64_t> at_{0};  // first granule and number of them
};

class Arena {
 public:
  // `huge`: blocks that nobody has used before may come in them (src/serve/huge_pages.h).
  void open(Space* space, bool huge = false);

  struct Block {
    void* start = nullptr;  // nullptr: no memory
    bool zero = false;      // every byte is known to be zero
    bool resident = false;  // all of it has memory already: no page fault will follow
    bool busy = false;      // there is none because others were at the arena for long
    std::uint64_t lacking =
        0;  // bytes of it that have no memory yet, and are expected to be written
  };
  // A block of `bytes` at a multiple of `alignment` (a power of two). One thread at a time.
  Block allocate(std::uint64_t bytes, std::uint64_t alignment);
  // Changes the size of the block at `start` in place, if there is room. One thread at a time.
  bool resize(void* start, std::uint64_t bytes);
  // Releases the block that starts at `start`; false if none does. Any thread.
  enum class Keep : std::uint8_t {
    kAll,      // its memory, as far as the peak allows
    kWritten,  // of a large one that part which is there
    kNone,     // it goes back to the system, whatever the peak
  };
  bool free(void* start, Keep keep = Keep::kAll);

  // The block of so many bytes that was just freed at `start` goes back with the next call, unless that takes its place;
  // false, and it stays, if another one waits. Any thread.
  bool spare(const void* start, std::uint64_t bytes) {
    return spare_.offer(space_->granule_of(start), granules_of(bytes));
  }

  static constexpr std::uint64_t kAll = UINT64_MAX;
  // Forgets the past peak, or `less` bytes of it, and gives back memory that no block uses and the
  // rest of the peak does not keep, up to `bytes` of it; the bytes given back. Owner only.
  std::uint64_t trim(std::uint64_t bytes = kAll, std::uint64_t less = kAll);
  // Gives back what trim(), age() and calls left to be given back, up to `bytes`, however long the
  // walk to it. Owner only.
  std::uint64_t settle(std::uint64_t bytes = kAll);
  // Gives up the committed memory behind the last block, which trim() has given back; bytes. Owner
  // only.
  std::uint64_t retreat();
  // Lets the peak follow what was alive since the last two calls: the past is forgotten, and up to
  // `bytes` of its memory given back; how much. Owner only.
  std::uint64_t age(std::uint64_t bytes = kAll);

  // Its figures, which any thread may read.
  [[nodiscard]] const Holding& held() const { return held_; }
  // The same, for its owner, who may tell them more.
  [[nodiscard]] Holding& books() { return held_; }
  // Steps that all walks have taken so far. Owner only.
  [[nodiscard]] std::uint64_t steps() const { return steps_; }
  // True if the page map and the books agree. Looks at all of it; no other thread may be at work.
  [[nodiscard]] bool valid() const;

  // Which part of it comes in huge pages. The owner changes it, any thread asks for its end.
  HugePages huge_pages;

 private:
  FreeRuns::Run find(Granules count, Granules step);
  Granules purge(FreeRuns::Walk& walk, Granules granules, std::uint64_t ranges);
  Granules purge_some(Granules granules, Granules count);
  std::uint64_t purge_all(Granules granules);
  std::uint64_t shed(Granules granules, std::uint64_t bytes);
  Granules account(void* start, PageMap::Claim& claim, Granules count);
  void give_excess_back(Granules count);
  void forget_spared(Granules first, Granules count);
  Granules spare_unwritten(Granules first, Granules length);
  [[nodiscard]] std::atomic_ref<std::uint16_t> expectation(Granules first) const {
    return space_->note(first + Granules{1});
  }
  // Granules of the block that count as unwritten.
  [[nodiscard]] Granules spared(Granules first, Granules count) const {
    return count < Shares::kLeast
               ? Granules{0}
               : count - Expected(expectation(first).load(std::memory_order_relaxed)).of(count);
  }
  void part_with_spare();

  Space* space_ = nullptr;
  Granules top_;        // granules from here on were never used
  Granules newest_;     // where the block lies that was taken from there last
  Granules far_;        // where a search that is too long for one walk goes on; 0: anew
  Granules far_purge_;  // and the last purge
  std::uint64_t steps_ = 0;
  LowestFree lowest_free_;
  Holding held_;
  Shares shares_;
  Backoff refusals_;  // of the system to take memory back
  Spare spare_;
};

}  // namespace memo
