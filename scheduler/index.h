// Nodes and storages are 32-bit numbers, vectors are asked with std::size_t.
#pragma once

#include <cstddef>
#include <cstdint>

namespace schedule {

// A number of 0 or more as a vector's index.
inline std::size_t at(std::int32_t index) {
  return static_cast<std::size_t>(index);
}

}  // namespace schedule
