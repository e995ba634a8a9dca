// How much of the blocks of each size is written, as looks at all of them have shown when they were
// freed. Hot; any thread. A wrong answer costs page faults, or keeps memory up to a block's size.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "src/base/granule.h"
#include "src/base/tuning.h"

namespace memo {

// What the pool expects of one of its blocks, in the second of the words that its space has for the
// block's granules.
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
    return Granules{(count.count() * (word_ & kAll) + kAll - 1) / kAll};
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

  // Of a block of `count` granules those that will be written: as many as of the last one of that
  // size; of a new size, the part that the last new ones had in the mean.
  [[nodiscard]] Granules expected(Granules count) const {
    const std::uint64_t word = slot(count).load(std::memory_order_relaxed);
    if (word >> 32U == count.count()) {
      return Granules{word & kMost};
    }
    const std::uint64_t lack = new_lack_.load(std::memory_order_relaxed);
    return lack < kLittle ? count : count - Granules{count.count() * lack / kWhole};
  }
  // Such blocks write other pages each time: what earlier ones have written is not theirs.
  [[nodiscard]] bool moves(Granules count) const {
    const std::uint64_t word = slot(count).load(std::memory_order_relaxed);
    return word >> 32U == count.count() && (word & kMoves) != 0;
  }
  void note_moves(Granules count) { slot(count).fetch_or(kMoves, std::memory_order_relaxed); }
  // Of such a block, about to be freed, `there` have memory. Where it is not `fresh`, earlier
  // blocks may have written some of them.
  void note(Granules count, Granules there, bool fresh) {
    const Granules least = fresh ? there : std::min(there, expected(count));
    if (slot(count).load(std::memory_order_relaxed) >> 32U != count.count()) {
      const std::uint64_t lack = kWhole - std::min(least, count).count() * kWhole / count.count();
      const std::uint64_t mean = new_lack_.load(std::memory_order_relaxed);
      new_lack_.store((3 * mean + lack) / 4, std::memory_order_relaxed);
    }
    const std::uint64_t moves = this->moves(count) ? kMoves : 0;
    slot(count).store(count.count() << 32U | moves | std::min(least.count(), kMost),
                      std::memory_order_relaxed);
  }

 private:
  static constexpr std::uint32_t kSlots = 256;
  static constexpr std::uint64_t kMoves = 1ULL << 31U;
  static constexpr std::uint64_t kMost = kMoves - 1;
  static constexpr std::uint64_t kWhole = 1U << 16U;
  static constexpr std::uint64_t kLittle = kWhole / 8;  // new sizes that lack less count as written
  [[nodiscard]] const std::atomic<std::uint64_t>& slot(Granules count) const {
    return slots_[((count.count() * 0x9E3779B97F4A7C15ULL) >> 32U) % kSlots];
  }
  [[nodiscard]] std::atomic<std::uint64_t>& slot(Granules count) {
    return slots_[((count.count() * 0x9E3779B97F4A7C15ULL) >> 32U) % kSlots];
  }
  std::atomic<std::uint64_t> slots_[kSlots] = {};
  // What blocks of new sizes leave unwritten, in parts of kWhole: in the mean, the later the more.
  std::atomic<std::uint64_t> new_lack_{0};
};

}  // namespace memo
