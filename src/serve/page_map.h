// The page map: what makes serving safe. A byte for each granule of a space tells whether it is in
// use; a claim needs every granule free, and a claim is the only way to get one. Hot.
//
// One thread at a time claims, extends or shrinks (the lane's owner); any thread releases. A
// block's granules belong to it from a successful claim until its release, whatever plan or thread
// is wrong.
//
// Checked by valid().
//
//   granule   0        1        2        3        4
//   state   [start|used][used][used|  ] [dirty]  [0]      length[0] = 3
#pragma once

#include <cstdint>

#include "src/serve/free_chunks.h"

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
  // map. With `chunks`, walks pass what is free as a whole quickly; whoever claims, extends or
  // releases then says so by note_claimed() and note_free().
  PageMap(std::uint8_t* state, std::uint32_t* length, FreeChunks chunks = {})
      : state_(state), length_(length), chunks_(chunks) {}

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
  // A walk over [at, to) of no more than `steps` steps; `at` moves on. A step is a block or free
  // run (or a single granule, where the walk begins inside of a block), and inside of a free run
  // and of a place that is looked at, each further word: eight granules, or 64 chunks known to be
  // free. A run is cut where the steps end.
  struct Walk {
    std::uint64_t at = 0;
    std::uint64_t to = 0;
    std::uint64_t steps = UINT64_MAX;
  };
  // Where on the walk to place `count` granules at a multiple of `alignment` (in granules, a power
  // of two), at the low end of a free run or where memory begins again in it: where the fewest of
  // them lack memory, and among such places in the smallest run, at its low end.
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

  enum class Tail : std::uint8_t { kFree, kClean };
  // The first granule of [from, to] from which on all up to `to` is free, or free and clean.
  [[nodiscard]] std::uint64_t tail(Tail kind, std::uint64_t from, std::uint64_t to) const;

  // Marks free granules of [first, first + count) as clean: their memory was given back and reads
  // as zero.
  void mark_clean(std::uint64_t first, std::uint64_t count);

  // A block is about to be released, and will leave memory that is `clean` or else dirty. Before
  // the release, any thread.
  void note_free(std::uint64_t first, std::uint64_t count, bool clean);
  // Granules were claimed, or a place turned out not to be free. The thread that claims.
  void note_claimed(std::uint64_t first, std::uint64_t count);

  struct Sums {
    std::uint64_t used = 0;   // granules
    std::uint64_t dirty = 0;  // free ones
  };
  // True if the first `granules` contradict themselves nowhere: each used granule belongs to one
  // block of that length, and what is known of chunks holds. Looks at all of them, and tells how
  // many are used and dirty; no other thread may be at work. For tests.
  [[nodiscard]] bool valid(std::uint64_t granules, Sums* sums = nullptr) const;

 private:
  using Kind = FreeChunks::Kind;
  static constexpr std::uint8_t kUsed = 1;
  static constexpr std::uint8_t kStart = 2;
  static constexpr std::uint8_t kDirty = 4;

  [[nodiscard]] std::uint8_t state(std::uint64_t granule) const;
  void set_state(std::uint64_t granule, std::uint8_t value);
  [[nodiscard]] Claim look(std::uint64_t first, std::uint64_t count) const;
  [[nodiscard]] std::uint64_t count_dirty(std::uint64_t first, std::uint64_t count) const;
  [[nodiscard]] std::uint64_t end_of(Kind kind, std::uint64_t at, Walk& walk) const;
  [[nodiscard]] std::uint64_t end_of_words(std::uint64_t mask, std::uint64_t wanted,
                                           std::uint64_t at, std::uint64_t end) const;
  [[nodiscard]] bool chunks_valid(std::uint64_t granules) const;
  void fill(std::uint64_t first, std::uint64_t count, std::uint8_t value);

  std::uint8_t* state_ = nullptr;
  std::uint32_t* length_ = nullptr;
  FreeChunks chunks_;
};

}  // namespace memo
