// The unit in which memory is planned and given out, and the ways from bytes to it and back. Hot.
#pragma once

#include <cstdint>

#include "src/base/bits.h"
#include "src/base/units.h"

namespace memo {

// Blocks in a slab begin and end on granules; the page map has one byte for each.
inline constexpr std::uint64_t kGranule = 4096;  // bytes
// Above this no block is memory of any machine, and planning it would overflow. Bytes.
inline constexpr std::uint64_t kMaxBlock = 1ULL << 46U;

// Granules that a block of `bytes` takes.
constexpr Granules granules_of(std::uint64_t bytes) {
  return Granules{(bytes + kGranule - 1) / kGranule};
}
// Whole granules that `bytes` hold, and the granule in which the byte at that offset lies.
constexpr Granules granules_in(std::uint64_t bytes) {
  return Granules{bytes / kGranule};
}
constexpr std::uint64_t bytes_of(Granules granules) {
  return granules.count() * kGranule;
}

// As for numbers (src/base/bits.h): to a multiple of `unit`, a power of two.
constexpr Granules round_up(Granules x, Granules unit) {
  return Granules{round_up(x.count(), unit.count())};
}
constexpr Granules round_down(Granules x, Granules unit) {
  return Granules{round_down(x.count(), unit.count())};
}

}  // namespace memo
