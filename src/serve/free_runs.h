// Where a page map's granules are free: walks for the place that fits best, for free runs, and for memory to give
// back. Hot. Nothing here changes who has a granule, so that all it can do wrong is to find a poor place.
//
// One thread at a time walks and says what was claimed; whoever releases says so before. Checked by valid().
#pragma once

#include <cstdint>

#include "src/serve/free_chunks.h"
#include "src/serve/page_map.h"

namespace memo {

class FreeRuns {
 public:
  using Run = PageMap::Run;

  FreeRuns() = default;
  // With `chunks`, walks pass what is free as a whole quickly; whoever claims, extends or releases
  // then says so by note_claimed() and note_free(), and whoever gives memory back by note_clean().
  explicit FreeRuns(const PageMap& pages, FreeChunks chunks = {})
      : pages_(pages), chunks_(chunks) {}

  // A walk over [at, to) of no more than `steps` steps; `at` moves on. A step is a block or free
  // run (or a single granule, where the walk begins inside of a block), and inside of a free run
  // and of a place that is looked at, each further word: eight granules, or 64 chunks known to be
  // free. A run is cut where the steps end.
  struct Walk {
    Granules at;
    Granules to;
    std::uint64_t steps = UINT64_MAX;
  };
  // Where on the walk to place `count` granules at a multiple of `alignment` (in granules, a power
  // of two), at the low end of a free run or where memory begins again in it: where the fewest of
  // them lack memory, and among such places in the smallest run, at its low end.
  [[nodiscard]] Run best_fit(Walk& walk, Granules count, Granules alignment) const;
  // The next free run.
  [[nodiscard]] Run next_free(Walk& walk) const;
  // The next free run of dirty granules, at most `most` long.
  [[nodiscard]] Run next_dirty(Walk& walk, Granules most) const;

  // The same over all of [from, to).
  [[nodiscard]] Run best_fit(Granules from, Granules to, Granules count, Granules alignment) const {
    Walk walk{from, to};
    return best_fit(walk, count, alignment);
  }
  [[nodiscard]] Run next_free(Granules from, Granules to) const {
    Walk walk{from, to};
    return next_free(walk);
  }
  [[nodiscard]] Run next_dirty(Granules from, Granules to, Granules most) const {
    Walk walk{from, to};
    return next_dirty(walk, most);
  }

  enum class Tail : std::uint8_t { kFree, kClean };
  // The first granule of [from, to] from which on all up to `to` is free, or free and clean.
  [[nodiscard]] Granules tail(Tail kind, Granules from, Granules to) const;

  // A block is about to be released, and will leave memory that is `clean` or else dirty. Before
  // the release, any thread.
  void note_free(Granules first, Granules count, bool clean) const;
  // Granules were claimed, or a place turned out not to be free. The thread that claims.
  void note_claimed(Granules first, Granules count) const;
  // Free granules were marked as clean. The same thread.
  void note_clean(Granules first, Granules count) const;

  // True if what is known of the chunks of the first `granules` holds. Looks at all of them; no
  // other thread may be at work. For tests.
  [[nodiscard]] bool valid(Granules granules) const;

 private:
  using Kind = FreeChunks::Kind;

  [[nodiscard]] Granules end_of(Kind kind, Granules at, Walk& walk) const;
  [[nodiscard]] Granules end_of_words(std::uint64_t mask, std::uint64_t wanted, Granules at,
                                      Granules end) const;

  PageMap pages_;
  FreeChunks chunks_;
};

}  // namespace memo
