// Which chunks of a page map are free as a whole, a bit each, so that a walk passes 128 MiB of free
// memory by one word. Hot.
//
// A bit that is set is true, but for a block that is just being released, whose chunks may count as
// free or clean already; one that is not set says nothing. That needs no lock: other threads only
// make granules free, and never a free one clean or dirty, so what one thread at a time (who claims
// and purges) has seen of a free chunk stays true until that thread itself changes it. Who takes a
// free place looks at each granule, and what is clean is only passed; but what is dirty is given
// back, so no chunk counts as dirty before the walk has seen that its release is over. Checked by
// FreeRuns::valid().
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>

#include "src/base/units.h"

namespace memo {

class FreeChunks {
 public:
  // Granules of a chunk: 2 MiB, 64 words of the page map.
  static constexpr Granules kChunk{512};
  // No granule is in use; none has old bytes, either; all have.
  enum class Kind : std::uint8_t { kFree, kClean, kDirty };

  FreeChunks() = default;
  // `words` holds words(granules) zeroed words, which outlive this.
  explicit FreeChunks(std::uint64_t* words) : words_(words) {}
  static constexpr std::uint64_t words(Granules granules) {
    return (granules / (kChunk * kBits) + 1) * kKinds;
  }
  [[nodiscard]] bool kept() const { return words_ != nullptr; }

  [[nodiscard]] bool has(Kind kind, std::uint64_t chunk) const {
    return ((load(kind, chunk / kBits) >> (chunk % kBits)) & 1) != 0;
  }
  // Every whole chunk inside [first, first + count) is of this kind, and of no other but kFree. Who
  // releases a block says so before its granules are free, and never kDirty; else, the one thread.
  void set(Kind kind, Granules first, Granules count) const {
    each((first + kChunk - Granules{1}) / kChunk, (first + count) / kChunk,
         [&](std::uint64_t at, std::uint64_t bits) {
           word(Kind::kFree, at).fetch_or(bits, std::memory_order_relaxed);
           if (kind != Kind::kFree) {
             word(kind, at).fetch_or(bits, std::memory_order_relaxed);
           }
         });
  }
  // No chunk that [first, first + count) touches is known to be of this kind any more.
  void clear(Kind kind, Granules first, Granules count) const {
    each(first / kChunk, (first + count + kChunk - Granules{1}) / kChunk,
         [&](std::uint64_t at, std::uint64_t bits) {
           word(kind, at).fetch_and(~bits, std::memory_order_relaxed);
         });
  }
  // The first granule from `at` (a chunk's first) on whose chunk is not known to be of the kind; at
  // most `to`. Takes a step for each word that it looks at, and ends where there are none.
  [[nodiscard]] Granules pass(Kind kind, Granules at, Granules to, std::uint64_t& steps) const {
    for (std::uint64_t chunk = at / kChunk; at < to && steps != 0; at = chunk * kChunk) {
      --steps;
      const std::uint64_t known = load(kind, chunk / kBits) >> (chunk % kBits);
      const auto run = static_cast<std::uint64_t>(std::countr_one(known));
      chunk += run;
      if (chunk % kBits != 0 || run == 0) {
        at = chunk * kChunk;
        break;
      }
    }
    return std::min(at, to);
  }

 private:
  static constexpr std::uint64_t kBits = 64;
  static constexpr std::uint64_t kKinds = 3;

  // The kinds of 64 chunks lie side by side.
  [[nodiscard]] std::atomic_ref<std::uint64_t> word(Kind kind, std::uint64_t index) const {
    return std::atomic_ref(words_[index * kKinds + static_cast<std::uint64_t>(kind)]);
  }
  [[nodiscard]] std::uint64_t load(Kind kind, std::uint64_t index) const {
    return word(kind, index).load(std::memory_order_relaxed);
  }
  // function(index of a word, bits in it) for the chunks [from, to).
  template <typename Function>
  static void each(std::uint64_t from, std::uint64_t to, Function&& function) {
    while (from < to) {
      const std::uint64_t count = std::min(kBits - from % kBits, to - from);
      function(from / kBits, (~std::uint64_t{0} >> (kBits - count)) << (from % kBits));
      from += count;
    }
  }

  std::uint64_t* words_ = nullptr;
};

}  // namespace memo
