// A placer and a page map together, as a lane has them: for tests and measurements.
#pragma once

#include <cstdint>

#include "src/engine/fallback_reasons.h"

namespace memo::testing {

struct Placement {
  std::uint64_t offset = kUnplanned;  // bytes from the slab's start, where miss is kNone
  Miss miss = Miss::kNone;
  bool dirty = true;     // the place may hold old bytes
  bool wrapped = false;  // the call ended an iteration
  // The call is a step of the plan, whether or not that has a place.
  [[nodiscard]] bool matched() const { return miss != Miss::kSize && miss != Miss::kOrder; }
};

// The next allocation of the stream; the granules of a placement are claimed in `pages`.
inline Placement place(Placer& placer, std::uint64_t size, std::uint64_t alignment,
                       PageMap& pages) {
  const Step* step = placer.next(size);
  if (step == nullptr || step->offset == kUnplanned) {
    return {.miss = placer.why_no_place(step), .wrapped = step != nullptr && placer.wrapped()};
  }
  const SlabPlace answer = claim_place(pages, step->offset, size, alignment);
  return {step->offset, miss_of(answer.answer), answer.dirty, placer.wrapped()};
}

}  // namespace memo::testing
