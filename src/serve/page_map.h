// The page map: what makes serving safe. A byte for each granule of a space tells whether it is in
// use; a claim needs every granule free, and a claim is the only way to get one. Hot.
//
// One thread at a time claims, extends or shrinks (the lane's owner); any thread frees. A
// block's granules belong to it from a successful claim until it is freed, whatever plan or thread
// is wrong. Where to claim is src/serve/free_index.h's.
//
// Checked by valid().
//
//   granule   0        1        2        3        4
//   state   [start|used][used][used|  ] [dirty]  [0]      length[0] = 3
#pragma once

#include <cstdint>

#include "src/serve/page_states.h"

namespace memo {

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
  // Of a block in use, whose free() is to leave kUnmarked memory: the caller has given these
  // granules' back, so that they read as zero. Not the block's first.
  void mark_given(Granules first, Granules count);

  // Makes the block at `first` longer in place, if the granules behind it are free.
  Claim extend(Granules first, Granules count);
  // Makes the block at `first` shorter: gives back the granules from first + count on, and tells
  // how many. The caller has given back the memory of the last `clean` ones, so that they read as
  // zero.
  Granules shrink(Granules first, Granules count, Granules clean = {});

  // Marks free granules of [first, first + count) as clean: their memory was given back and reads
  // as zero.
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
  [[nodiscard]] Granules noted(Granules first) const { return Granules{length_[first.count()]}; }
  void note(Granules first, Granules count) {
    length_[first.count()] = static_cast<std::uint32_t>(count.count());
  }

  PageStates states_;
  std::uint32_t* length_ = nullptr;
};

}  // namespace memo
