// How much of the blocks of each size is written, as looks at all of them have shown when they were
// freed. Hot; any thread. A wrong answer costs page faults, or keeps memory up to a block's size.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "src/base/tuning.h"
#include "src/base/units.h"
#include "src/serve/written.h"

namespace memo {

// What the pool expects of one of its blocks, in the second of the words that its space has for the
// block's granules. Never less than it was told, and exact up to 128 MiB: a granule too many in the
// pool's books lets it give back memory that the next block writes.
class Expected {
 public:
  // Of a block of `count` granules so many; `fresh`: none of it had memory before.
  Expected(Granules count, Granules written, bool fresh)
      : word_(static_cast<std::uint16_t>(
            (std::min(written.count(), count.count()) * kAll + count.count() - 1) / count.count() |
            (fresh ? kFresh : 0U))) {}
  explicit Expected(std::uint16_t word) : word_(word) {}
  [[nodiscard]] std::uint16_t word() const { return word_; }
  [[nodiscard]] bool fresh() const { return (word_ & kFresh) != 0; }
  [[nodiscard]] Granules of(Granules count) const {
    return Granules{count.count() * (word_ & kAll) / kAll};
  }

 private:
  static constexpr std::uint64_t kAll = (1U << 15U) - 1;
  static constexpr std::uint16_t kFresh = 1U << 15U;
  std::uint16_t word_;
};

class Shares {
 public:
  // Blocks of fewer granules are taken to be written.
  static constexpr Granules kLeast = granules_in(tuning::kMinLooked);

  // Which pages of a size's blocks are written: the first ones; others each time, so that what
  // earlier ones have written is not theirs; or it is not known.
  enum class Where : std::uint8_t { kUnknown, kFirst, kMoves };
  struct Share {
    Granules written;
    Where where = Where::kUnknown;
  };
  // Of a block of `count` granules those that will be written: as many as of the last one of that
  // size; of a new size, the part that the last new ones had in the mean.
  [[nodiscard]] Share of(Granules count) const {
    const std::uint64_t word = slots_[slot(count)].load(std::memory_order_relaxed);
    if (is_of(word, count)) {
      return {Granules{word & kMost}, static_cast<Where>(word >> kWhereShift & 3U)};
    }
    const std::uint64_t lack = new_lack_.load(std::memory_order_relaxed);
    return {lack < kLittle ? count : count - Granules{count.count() * lack / kWhole}};
  }
  [[nodiscard]] Granules expected(Granules count) const { return of(count).written; }
  // Such a block is expected to write `there` granules, but for what may_lack() allows.
  [[nodiscard]] bool is_about(Granules count, Granules there) const {
    const Granules before = expected(count);
    return is_whole(bytes_of(std::max(before, there)), bytes_of(std::min(before, there)));
  }
  // Such a block, about to be freed, has written pages that it was not expected to.
  void note_moves(Granules count) { store(count, {expected(count), Where::kMoves}); }
  // Of such a block `there` have memory. Where they are not its `own`, earlier blocks may have
  // written some: only of its own it is known whether they are its `first` ones.
  void note(Granules count, Granules there, bool own, bool first) {
    const Share now = of(count);
    const bool moves = now.where == Where::kMoves;
    const Where elsewhere = moves ? Where::kMoves : Where::kUnknown;
    const Share next =
        own ? Share{there, first ? Where::kFirst : elsewhere}
            : Share{std::min(there, now.written), moves ? Where::kUnknown : now.where};
    if (!is_of(slots_[slot(count)].load(std::memory_order_relaxed), count)) {
      const Granules written = std::min(next.written, count);
      const std::uint64_t lack = kWhole - written.count() * kWhole / count.count();
      const std::uint64_t mean = new_lack_.load(std::memory_order_relaxed);
      new_lack_.store((3 * mean + lack) / 4, std::memory_order_relaxed);
    }
    store(count, next);
  }

 private:
  static constexpr std::uint32_t kSlots = 256;
  static constexpr unsigned kWhereShift = 30;
  static constexpr std::uint64_t kMost = (1ULL << kWhereShift) - 1;
  static constexpr std::uint64_t kWhole = 1U << 16U;
  static constexpr std::uint64_t kLittle = kWhole / 8;  // new sizes that lack less count as written
  static bool is_of(std::uint64_t word, Granules count) { return word >> 32U == count.count(); }
  void store(Granules count, Share share) {
    const std::uint64_t written = std::min(share.written.count(), kMost);
    const std::uint64_t where = static_cast<std::uint64_t>(share.where) << kWhereShift;
    slots_[slot(count)].store(count.count() << 32U | where | written, std::memory_order_relaxed);
  }
  static std::uint64_t slot(Granules count) {
    return ((count.count() * 0x9E3779B97F4A7C15ULL) >> 32U) % kSlots;
  }
  std::atomic<std::uint64_t> slots_[kSlots] = {};
  // What blocks of new sizes leave unwritten, in parts of kWhole: in the mean, the later the more.
  std::atomic<std::uint64_t> new_lack_{0};
};

}  // namespace memo
