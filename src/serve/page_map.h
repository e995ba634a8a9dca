// The page map: what makes serving safe. A byte for each granule of a space tells whether it is in
// use; a claim needs every granule free, and a claim is the only way to get one. Hot.
//
// One thread at a time claims, extends or shrinks: in a slab the lane's, in an arena the one that
// holds its lock. Any thread frees. A block's granules belong to it from a successful claim until
// it is freed, whatever plan or thread is wrong. Where to claim is src/serve/free_index.h's.
//
// Checked by valid().
//
//   granule   0        1        2        3        4
//   state   [start|used][used][used|  ] [dirty]  [0]      length[0] = 3
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/base/units.h"

namespace memo {

// The states of granules, a byte each, read and written eight at a time where they lie side by
// side.
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

class PageMap {
 public:
  struct Claim {
    bool granted = false;
    Granules dirty;  // of those granted, what holds old bytes; the others are zero
  };

  PageMap() = default;
  // Zeroed arrays with an element for each granule, `state` aligned to 8 bytes, which outlive the
  // map. A copy is of the same granules.
  PageMap(std::uint8_t* state, std::uint32_t* length) : states_(state), length_(length) {}

  // Takes [first, first + count) if all of it is free. Requires 1 <= count < 2^32.
  Claim claim(Granules first, Granules count);
  // What claim() would answer.
  [[nodiscard]] Claim look(Granules first, Granules count) const;

  // Gives back the block that starts at `first`; its length in granules, or 0 if none starts there
  // (a pointer into the middle, or a second free), in which case nothing changes.
  // `left`: what of its memory is there still.
  enum class Left : std::uint8_t { kAll, kNone, kUnmarked };
  Granules free(Granules first, Left left = Left::kAll);
  // The program changes what the pages of [from, to) are, such as their protection: the blocks in
  // use there are altered() until they are freed. Any thread.
  void mark_altered(Granules from, Granules to) { mark(from, to, kAltered); }
  [[nodiscard]] bool altered(Granules first) const {
    return (states_.at(first) & PageStates::kAltered) != 0;
  }
  // The same, and what lies there may be another's: such blocks are never freed. Any thread.
  void mark_lost(Granules from, Granules to) { mark(from, to, kAltered | PageStates::kLost); }
  [[nodiscard]] bool lost(Granules first) const {
    return (states_.at(first) & PageStates::kLost) != 0;
  }
  // Makes the block at `first` longer in place, if the granules behind it are free.
  Claim extend(Granules first, Granules count);
  // Makes the block at `first` shorter: gives back the granules from first + count on. The caller
  // has given back the memory of the last `clean` ones, so that they read as zero.
  void shrink(Granules first, Granules count, Granules clean = {});

  // Marks granules of [first, first + count) as clean: the caller has given their memory back, so
  // that they read as zero. They are free, or of a block in use, without its first, whose
  // free() says kUnmarked.
  void mark_clean(Granules first, Granules count);

  // Granules of the block that starts at `first`, 0 if none starts there.
  [[nodiscard]] Granules length(Granules first) const;

  struct Run {
    Granules first;
    Granules count;  // 0: none was found

    [[nodiscard]] bool found() const { return count != Granules{0}; }
    [[nodiscard]] Granules end() const { return first + count; }
  };
  // The block in use that covers `granule`. Looks back over what the block has before it.
  [[nodiscard]] Run block_at(Granules granule) const;
  // Granules of the free block that started at `granule` last, 0 if the granule is in use or no
  // block has started there. For messages.
  [[nodiscard]] Granules freed_length(Granules granule) const;

  // The next free run of [from, to).
  [[nodiscard]] Run next_free(Granules from, Granules to) const;
  // function(run) for each of them; it may claim the run.
  template <typename Function>
  void each_free(Granules from, Granules to, Function&& function) const {
    for (Run run = next_free(from, to); run.found(); run = next_free(run.end(), to)) {
      function(run);
    }
  }
  enum class Tail : std::uint8_t { kFree, kClean };
  // The first granule of [from, to) from which on all up to `to` is free, or free and clean.
  [[nodiscard]] Granules tail(Tail kind, Granules from, Granules to) const;

  // For walks: the state of each granule, and how far a walk moves on from one in use, whose state
  // was `bits`: past its block from its start, else by one.
  [[nodiscard]] const PageStates& states() const { return states_; }
  [[nodiscard]] Granules past(Granules granule, std::uint8_t bits) const {
    return granule + ((bits & PageStates::kStart) != 0 ? noted(granule) : Granules{1});
  }

  struct Sums {
    Granules used;
    Granules dirty;  // free ones
  };
  // True if the first `granules` contradict themselves nowhere: each used granule belongs to one
  // block of that length. Looks at all of them, and tells how many are used and dirty; no other
  // thread may be at work. For tests.
  [[nodiscard]] bool valid(Granules granules, Sums* sums = nullptr) const;

 private:
  static constexpr std::uint8_t kUsed = PageStates::kUsed;
  static constexpr std::uint8_t kStart = PageStates::kStart;
  static constexpr std::uint8_t kDirty = PageStates::kDirty;
  static constexpr std::uint8_t kAltered = PageStates::kAltered;

  void mark(Granules from, Granules to, std::uint8_t bits);
  // Of the block that starts there, or did last.
  [[nodiscard]] Granules noted(Granules first) const {
    return Granules{__atomic_load_n(length_ + first.count(), __ATOMIC_RELAXED)};
  }
  void note(Granules first, Granules count) {
    __atomic_store_n(length_ + first.count(), static_cast<std::uint32_t>(count.count()),
                     __ATOMIC_RELAXED);
  }

  PageStates states_;
  std::uint32_t* length_ = nullptr;
};

}  // namespace memo
