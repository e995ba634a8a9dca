// The states of a page map's granules, a byte each, read and written eight at a time where they lie
// side by side. Hot.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/base/units.h"

namespace memo {

class PageStates {
 public:
  static constexpr std::uint8_t kUsed = 1;
  static constexpr std::uint8_t kStart = 2;
  static constexpr std::uint8_t kDirty = 4;
  // Of a block's first granule: the program has changed what its pages are.
  static constexpr std::uint8_t kAltered = 8;
  // And others may have mapped something in it, so that its pages are not to be touched any more.
  static constexpr std::uint8_t kLost = 16;
  // Granules whose states are read at a time, and a word's bytes that are each 1.
  static constexpr Granules kWord{8};
  static constexpr std::uint64_t kEveryByte = 0x0101010101010101ULL;

  PageStates() = default;
  // `bytes`: one for each granule, aligned to eight, which outlive this.
  explicit PageStates(std::uint8_t* bytes) : bytes_(bytes) {}

  // Acquires: what was done before the state was set has happened.
  [[nodiscard]] std::uint8_t at(Granules granule) const {
    return __atomic_load_n(bytes_ + granule.count(), __ATOMIC_ACQUIRE);
  }
  void set(Granules granule, std::uint8_t value) {
    __atomic_store_n(bytes_ + granule.count(), value, __ATOMIC_RELEASE);
  }
  // Changes the state if it is `expected`; false if it is another.
  bool replace(Granules granule, std::uint8_t expected, std::uint8_t value) {
    return __atomic_compare_exchange_n(bytes_ + granule.count(), &expected, value, false,
                                       __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
  }
  void fill(Granules first, Granules count, std::uint8_t value) {
    sweep(
        first, count, [&](std::uint8_t* byte) { __atomic_store_n(byte, value, __ATOMIC_RELEASE); },
        [&](Word* word) { __atomic_store_n(word, kEveryByte * value, __ATOMIC_RELEASE); });
  }
  // Keeps of each state the bits in `mask`. Nobody else changes them meanwhile.
  void keep(Granules first, Granules count, std::uint8_t mask) {
    sweep(
        first, count,
        [&](std::uint8_t* byte) {
          const std::uint8_t now = __atomic_load_n(byte, __ATOMIC_RELAXED) & mask;
          __atomic_store_n(byte, now, __ATOMIC_RELEASE);
        },
        [&](Word* word) {
          const std::uint64_t now = __atomic_load_n(word, __ATOMIC_RELAXED) & (kEveryByte * mask);
          __atomic_store_n(word, now, __ATOMIC_RELEASE);
        });
  }
  // The states of eight granules, of which `first`, a multiple of eight, is the lowest byte.
  [[nodiscard]] std::uint64_t eight(Granules first) const {
    if (kWordAtATime) {
      return __atomic_load_n(reinterpret_cast<const Word*>(bytes_ + first.count()),
                             __ATOMIC_ACQUIRE);
    }
    std::uint64_t bits = 0;
    for (Granules i; i < kWord; ++i) {
      bits |= std::uint64_t{at(first + i)} << (8 * i.count());
    }
    return bits;
  }
  // The first of [first, end), which are free, that is not dirty or clean as the first one is;
  // `end`: all are.
  [[nodiscard]] Granules alike_until(Granules first, Granules end) const {
    const std::uint8_t bits = at(first);
    Granules here = first;
    while (here < end && at(here) == bits) {
      const bool words = here % kWord == Granules{0};
      if (words && end - here >= kWord && eight(here) == kEveryByte * bits) {
        here += kWord;
      } else {
        ++here;
      }
    }
    return here;
  }
  // note(states of eight granules, or of one eight times) for all of [first, first + count);
  // acquires.
  template <typename Function>
  void each(Granules first, Granules count, Function&& note) const {
    sweep(
        first, count,
        [&](std::uint8_t* byte) { note(__atomic_load_n(byte, __ATOMIC_ACQUIRE) * kEveryByte); },
        [&](Word* word) { note(__atomic_load_n(word, __ATOMIC_ACQUIRE)); });
  }
  // True if all of them are in use.
  [[nodiscard]] bool all_used(Granules first, Granules count) const {
    std::uint64_t every = ~std::uint64_t{0};
    each(first, count, [&](std::uint64_t bits) { every &= bits; });
    return (every & (kEveryByte * kUsed)) == kEveryByte * kUsed;
  }
  // How many granules are dirty. Where nobody makes one dirty or clean meanwhile.
  [[nodiscard]] Granules count_dirty(Granules first, Granules count) const {
    std::uint64_t dirty = 0;
    // The sum of a word's bytes by one multiplication; baseline x86-64 has no instruction to count
    // bits.
    const auto note = [&](std::uint64_t bits) {
      dirty += ((bits / kDirty & kEveryByte) * kEveryByte) >> 56;
    };
    sweep(
        first, count, [&](std::uint8_t* byte) { note(__atomic_load_n(byte, __ATOMIC_RELAXED)); },
        [&](Word* word) { note(__atomic_load_n(word, __ATOMIC_RELAXED)); });
    return Granules{dirty};
  }

 private:
  using Word [[gnu::may_alias]] = std::uint64_t;

  // The thread sanitizer takes only accesses of equal size for synchronising, so it gets bytes
  // alone.
#ifdef MEMO_TSAN
  static constexpr bool kWordAtATime = false;
#else
  static constexpr bool kWordAtATime = true;
#endif

  // Splits [first, first + count) into single bytes and aligned words of eight.
  template <typename ByteFunction, typename WordFunction>
  void sweep(Granules first, Granules count, ByteFunction&& byte, WordFunction&& word) const {
    std::uint8_t* bytes = bytes_ + first.count();
    std::uint8_t* const end = bytes + count.count();
    while (bytes != end && kWordAtATime &&
           reinterpret_cast<std::uintptr_t>(bytes) % sizeof(Word) != 0) {
      byte(bytes++);
    }
    // Four words a turn: for large blocks the loop itself would cost as much as its work.
    for (; kWordAtATime && end - bytes >= static_cast<std::ptrdiff_t>(4 * sizeof(Word));
         bytes += 4 * sizeof(Word)) {
      auto* const words = reinterpret_cast<Word*>(bytes);
      word(words);
      word(words + 1);
      word(words + 2);
      word(words + 3);
    }
    for (; kWordAtATime && end - bytes >= static_cast<std::ptrdiff_t>(sizeof(Word));
         bytes += sizeof(Word)) {
      word(reinterpret_cast<Word*>(bytes));
    }
    while (bytes != end) {
      byte(bytes++);
    }
  }

  std::uint8_t* bytes_ = nullptr;
};

}  // namespace memo
