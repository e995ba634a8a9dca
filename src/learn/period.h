// Finds the iteration in a stream of allocations. Pure and cold.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "src/trace/event.h"

namespace memo {

struct Period {
  std::uint32_t first = 0;   // index of the first allocation that repeats
  std::uint32_t length = 0;  // allocations in one iteration
  friend bool operator==(const Period&, const Period&) = default;
};

}  // namespace memo
