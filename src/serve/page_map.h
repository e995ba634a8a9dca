// The page map: what makes serving safe. A byte for each granule of a space tells whether it is in
// use; a claim needs every granule free, and a claim is the only way to get one. Hot.
//
// One thread at a time claims, extends or shrinks (the lane's owner); any thread releases. A
// block's granules belong to it from a successful claim until its release, whatever plan or thread
// is wrong. Where to claim is src/serve/free_runs.h's.
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
    std::uint64_t dirty =
        0;  // of the granules granted, those that hold old bytes; the others are zero
  };

  PageMap() = default;
  // Zeroed arrays with an element for each granule, `state` aligned to 8 bytes, which outlive the
  // map. A copy is of the same granules.
  PageMap(std::uint8_t* state, std::uint32_t* length) : states_(state), length_(length) {}

  // Takes [first, first + count) if all of it is free. Requires 1 <= count < 2^32.
  Claim claim(std::uint64_t first, std::uint64_t count);
  // What claim() would answer.
  [[nodiscard]] Claim look(std::uint64_t first, std::uint64_t count) const;

  // Gives back the block that starts at `first`; its length in granules, or 0 if none starts there
  // (a pointer into the middle, or a second free), in which case nothing changes.
  // `clean`: the caller has given the block's memory back, so that it reads as zero.
  std::uint64_t release(std::uint64_t first, bool clean = false);

  // Makes the block at `first` longer in place, if the granules behind it are free.
  Claim extend(std::uint64_t first, std::uint64_t count);
  // Makes the block at `first` shorter: gives back the granules from first + count on, and tells
  // how many.
  std::uint64_t shrink(std::uint64_t first, std::uint64_t count);

  // Marks free granules of [first, first + count) as clean: their memory was given back and reads
  // as zero.
  void mark_clean(std::uint64_t first, std::uint64_t count);

  // Granules of the block that starts at `first`, 0 if none starts there.
  [[nodiscard]] std::uint64_t length(std::uint64_t first) const;

  struct Run {
    std::uint64_t first = 0;
    std::uint64_t count = 0;  // 0: none was found
  };
  // The block in use that covers `granule`. Looks back over 2^20 granules at most. For messages.
  [[nodiscard]] Run block_at(std::uint64_t granule) const;
  // Granules of the free block that started at `granule` last, 0 if the granule is in use or no
  // block has started there. For messages.
  [[nodiscard]] std::uint64_t freed_length(std::uint64_t granule) const;

  // For walks: the state of each granule, and how far a walk moves on from one in use, whose state was
  // `bits`: past its block from its start, else by one.
  [[nodiscard]] const PageStates& states() const { return states_; }
  [[nodiscard]] std::uint64_t past(std::uint64_t granule, std::uint8_t bits) const {
    return granule + ((bits & PageStates::kStart) != 0 ? length_[granule] : 1);
  }

  struct Sums {
    std::uint64_t used = 0;   // granules
    std::uint64_t dirty = 0;  // free ones
  };
  // True if the first `granules` contradict themselves nowhere: each used granule belongs to one
  // block of that length. Looks at all of them, and tells how many are used and dirty; no other
  // thread may be at work. For tests.
  [[nodiscard]] bool valid(std::uint64_t granules, Sums* sums = nullptr) const;

 private:
  static constexpr std::uint8_t kUsed = PageStates::kUsed;
  static constexpr std::uint8_t kStart = PageStates::kStart;
  static constexpr std::uint8_t kDirty = PageStates::kDirty;

  PageStates states_;
  std::uint32_t* length_ = nullptr;
};

}  // namespace memo
