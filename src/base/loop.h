// A loop that a stream of large allocations is in, as reports name it, and how long one must have
// run. Hot.
#pragma once

#include <algorithm>
#include <cstdint>

#include "src/base/tuning.h"

namespace memo {

struct Loop {
  std::uint32_t length = 0;  // calls; 0: none
  std::uint32_t run = 0;     // calls so far that equalled the one `length` earlier

  // It has come three times: what came twice may be chance.
  [[nodiscard]] bool repeats() const { return length != 0 && run >= 2 * length; }
};

// Calls that a loop of that length must have run for to be believed against all signs.
inline std::uint32_t convincing_run(std::uint64_t length) {
  const std::uint64_t most = tuning::kConvincingRun;
  return static_cast<std::uint32_t>(
      std::min(most, std::max<std::uint64_t>(most / 4, tuning::kManyCopies * length)));
}

// Calls after which such a loop has a plan at the latest, if its blocks live alike: a run is looked
// at again when it has grown by a share.
inline std::uint32_t most_until_planned(std::uint64_t length) {
  return convincing_run(length) / tuning::kNextLookShare * (tuning::kNextLookShare + 1);
}

}  // namespace memo
