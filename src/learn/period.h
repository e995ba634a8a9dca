// The iteration of a thread's stream of large allocations. Cold.
#pragma once

#include <cstdint>

namespace memo {

// Allocations [first + k * length, first + (k + 1) * length) are the k-th iteration.
struct Period {
  // Index in the stream of the first allocation of the first regular iteration.
  std::uint32_t first = 0;
  std::uint32_t length = 0;  // allocations in one iteration, at least 1
  // Iterations that the schedule spans, set by planning (src/learn/lifetimes.h).
  std::uint32_t unroll = 1;
  std::uint32_t trial = 0;  // calls that a plan of it is to serve before it is believed; 0: it is
  friend bool operator==(const Period&, const Period&) = default;
};

}  // namespace memo
