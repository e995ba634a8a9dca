// The page map: what makes serving safe. A byte for each granule of a space tells whether it is in
// use; a claim needs every granule free, and a claim is the only way to get one. Hot.
//
// One thread at a time claims, extends or shrinks (the lane's owner); any thread releases. A
// block's granules belong to it from a successful claim until its release, whatever plan or thread
// is wrong.
//
//   granule   0        1        2        3        4
//   state   [start|used][used][used|  ] [dirty]  [0]      length[0] = 3
#pragma once

#include <cstdint>

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
  // map.
  PageMap(std::uint8_t* state, std::uint32_t* length) : state_(state), length_(length) {}

  // Takes [first, first + count) if all of it is free. Requires 1 <= count < 2^32.
  Claim claim(std::uint64_t first, std::uint64_t count);

  // Gives back the block that starts at `first`; its length in granules, or 0 if none starts there
  // (a pointer into the middle, or a second free), in which case nothing changes.
  // `clean`: the caller has given the block's memory back, so that it reads as zero.
  std::uint64_t release(std::uint64_t first, bool clean = false);

  // Makes the block at `first` longer in place, if the granules behind it are free.
  Claim extend(std::uint64_t first, std::uint64_t count);
  // Makes the block at `first` shorter: gives back the granules from first + count on, and tells
  // how many.
  std::uint64_t shrink(std::uint64_t first, std::uint64_t count);

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
  // A walk over [at, to) that looks at no more than `steps` blocks and free runs (or single
  // granules, where it begins inside of a block); `at` moves on.
  struct Walk {
    std::uint64_t at = 0;
    std::uint64_t to = 0;
    std::uint64_t steps = UINT64_MAX;
  };
  // Where on the walk to place `count` granules at a multiple of `alignment` (in granules, a power
  // of two): where the fewest of them lack memory, and among such places in the smallest free run.
  [[nodiscard]] Run best_fit(Walk& walk, std::uint64_t count, std::uint64_t alignment) const;
  // The next free run.
  [[nodiscard]] Run next_free(Walk& walk) const;
  // The next free run of dirty granules, at most `most` long.
  [[nodiscard]] Run next_dirty(Walk& walk, std::uint64_t most) const;

  // The same over all of [from, to).
  [[nodiscard]] Run best_fit(std::uint64_t from, std::uint64_t to, std::uint64_t count,
                             std::uint64_t alignment) const {
    Walk walk{from, to};
    return best_fit(walk, count, alignment);
  }
  [[nodiscard]] Run next_free(std::uint64_t from, std::uint64_t to) const {
    Walk walk{from, to};
    return next_free(walk);
  }
  [[nodiscard]] Run next_dirty(std::uint64_t from, std::uint64_t to, std::uint64_t most) const {
    Walk walk{from, to};
    return next_dirty(walk, most);
  }

  // Marks free granules of [first, first + count) as clean: their memory was given back and reads
  // as zero.
  void mark_clean(std::uint64_t first, std::uint64_t count);

 private:
  static constexpr std::uint8_t kUsed = 1;
  static constexpr std::uint8_t kStart = 2;
  static constexpr std::uint8_t kDirty = 4;

  [[nodiscard]] std::uint8_t state(std::uint64_t granule) const;
  void set_state(std::uint64_t granule, std::uint8_t value);
  [[nodiscard]] Claim look(std::uint64_t first, std::uint64_t count) const;
  [[nodiscard]] std::uint64_t count_dirty(std::uint64_t first, std::uint64_t count) const;
  [[nodiscard]] std::uint64_t first_with(std::uint8_t bits, std::uint64_t at,
                                         std::uint64_t to) const;
  void fill(std::uint64_t first, std::uint64_t count, std::uint8_t value);

  std::uint8_t* state_ = nullptr;
  std::uint32_t* length_ = nullptr;
};

}  // namespace memo
