// The unit in which memory is planned and given out. Hot.
#pragma once

#include <cstdint>

namespace memo {

// Blocks in a slab begin and end on granules; the page map has one byte for each.
inline constexpr std::uint64_t kGranule = 4096;  // bytes

// Granules that a block of `bytes` takes.
constexpr std::uint64_t granules_of(std::uint64_t bytes) {
  return (bytes + kGranule - 1) / kGranule;
}

}  // namespace memo
