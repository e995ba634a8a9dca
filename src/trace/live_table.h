// The live table: one 64-bit word for each block that is alive, a tagged pointer of 48 address bits
// and a 16-bit allocation id above them. Hot and lock-free.
//
//   63        48 47                                  0
//   +-----------+-------------------------------------+
//   |    id     |               address               |
//   +-----------+-------------------------------------+
//
// malloc and free of one address race on different threads; the word tells the generations apart,
// and compare-and-swap lets exactly one free claim it. A slot belongs to a granule of a space, so a
// look-up is an index, and the table's memory is bounded by the space's. Source: MemoMalloc
// thesis, 3.1 and listing 4.
#pragma once

#include <atomic>
#include <cstdint>

#include "src/base/check.h"
#include "src/base/units.h"

namespace memo {

class TaggedPointer {
 public:
  TaggedPointer() = default;
  TaggedPointer(std::uint64_t address, std::uint16_t id)
      : word_((address & kAddressBits) | (std::uint64_t{id} << 48)) {
    MEMO_DCHECK(address != 0 && address <= kAddressBits);
  }
  explicit TaggedPointer(std::uint64_t word) : word_(word) {}

  [[nodiscard]] std::uint64_t word() const { return word_; }
  [[nodiscard]] std::uint16_t id() const { return static_cast<std::uint16_t>(word_ >> 48); }
  // A process' addresses are positive: AArch64 gives them all 48 bits, x86-64 only 47.
  [[nodiscard]] std::uint64_t address() const { return word_ & kAddressBits; }

 private:
  static constexpr std::uint64_t kAddressBits = (1ULL << 48) - 1;
  std::uint64_t word_ = 0;
};

class LiveTable {
 public:
  LiveTable() = default;
  // `words` holds a zeroed word for each granule; the memory outlives the table.
  explicit LiveTable(std::uint64_t* words) : words_(words) {}

  void insert(Granules slot, TaggedPointer pointer) {
    MEMO_DCHECK(words_ != nullptr);
    std::atomic_ref(words_[slot.count()]).store(pointer.word(), std::memory_order_release);
  }

  // Takes the word of the block at `address` out; false if it was not recorded or somebody else was
  // first.
  bool claim(Granules slot, std::uint64_t address, TaggedPointer& pointer) {
    std::atomic_ref<std::uint64_t> cell(words_[slot.count()]);
    std::uint64_t seen = cell.load(std::memory_order_acquire);
    pointer = TaggedPointer(seen);
    return seen != 0 && pointer.address() == address &&
           cell.compare_exchange_strong(seen, 0, std::memory_order_acq_rel);
  }

 private:
  std::uint64_t* words_ = nullptr;
};

}  // namespace memo
