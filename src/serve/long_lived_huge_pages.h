// What lasts in the pool, such as weights, comes in huge pages once it is known to be written: 2
// MiB at a time, all of which several looks in a row have found in use, by the same blocks, and in
// memory. That takes none, and costs fewer misses of the TLB from then on. The background thread
// looks; while one huge page is made, a millisecond and less, who touches it waits.
#pragma once

#include <atomic>
#include <cstdint>

#include "src/base/os.h"
#include "src/base/units.h"
#include "src/serve/space.h"

namespace memo {

class LongLived {
 public:
  // Granules [first, end), at least one, were taken anew. The arena's owner.
  void note_taken(Granules first, Granules end) {
    if (std::uint8_t* const looks = looks_.load(std::memory_order_acquire); looks != nullptr) {
      for (std::uint64_t unit = unit_of(first); unit <= unit_of(end - Granules{1}); ++unit) {
        __atomic_store_n(looks + unit, std::uint8_t{0}, __ATOMIC_RELAXED);
      }
    }
  }
  // Looks at all that the space has, and makes a few huge pages. One thread at a time.
  void look(const Space& space);

 private:
  static constexpr std::uint8_t kDone = UINT8_MAX;  // it is in a huge page, or is to be in none
  static std::uint64_t unit_of(Granules granule) { return bytes_of(granule) / os::kHugePage; }

  // Of each 2 MiB in how many looks it was all in use by the same blocks; nullptr before the first
  // look.
  std::atomic<std::uint8_t*> looks_{nullptr};
};

}  // namespace memo
