// A slab's answer to a plan's offset: whether a block may lie there. Hot. What the plan says may be
// wrong; the page map alone keeps two blocks apart.
#pragma once

#include <cstdint>

#include "src/base/granule.h"
#include "src/serve/page_map.h"

namespace memo {

struct SlabPlace {
  enum class Answer : std::uint8_t { kGranted, kMisaligned, kOccupied };
  Answer answer = Answer::kOccupied;
  bool dirty = true;  // granted, and the place may hold old bytes
};

// Claims [offset, offset + bytes) of the slab that `pages` tells of, if it is free and at a border
// of `alignment` (bytes, a power of two; the slab begins at one). Requires an offset of whole
// granules.
inline SlabPlace claim_place(PageMap& pages, std::uint64_t offset, std::uint64_t bytes,
                             std::uint64_t alignment) {
  if (alignment > kGranule && (offset & (alignment - 1)) != 0) {
    return {SlabPlace::Answer::kMisaligned};
  }
  const PageMap::Claim claim = pages.claim(offset / kGranule, granules_of(bytes));
  return {claim.granted ? SlabPlace::Answer::kGranted : SlabPlace::Answer::kOccupied,
          claim.dirty != 0};
}

}  // namespace memo
