// The offline dynamic storage allocation problem: rectangles whose place in time is fixed and whose
// place in memory is sought. Pure value types; the planners, the validator and the engine share
// them.
//
//   address ^        +-----+
//           |  +-----| c   |       Buffers a and b live at the same time, so they may not share an
//           |  |  b  +--+--+--+    address; c starts when b ends (half-open lifetimes) and may
//           reuse |  +--------+  d  |    b's bytes from that very step on. |  |   a    |     |
//           +--+--------+-----+--> time
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace dsa {

using Time = std::int64_t;    // steps; any origin
using Bytes = std::int64_t;   // a size in bytes, never negative
using Offset = std::int64_t;  // a distance in bytes from the start of the memory, never negative

// A half-open interval of time [lower, upper).
struct Interval {
  Time lower = 0;
  Time upper = 0;
  friend bool operator==(const Interval&, const Interval&) = default;
};

// A block of memory that is needed during [lower, upper), except in its gaps.
// Requires lower < upper, size >= 0, alignment >= 1 (any integer, not only powers of two), and gaps
// that are disjoint, ascending, non-empty and inside the lifetime.
struct Buffer {
  Time lower = 0;
  Time upper = 0;
  Bytes size = 0;
  Bytes alignment = 1;
  std::vector<Interval> gaps = {};   // parts of the lifetime in which the memory may serve others
  std::optional<Offset> fixed = {};  // the offset is given and must be kept
};

struct Problem {
  std::vector<Buffer> buffers;
};

// offsets[i] belongs to buffers[i]; height is max(offset + size) over all buffers, 0 for none.
struct Plan {
  std::vector<Offset> offsets;
  Bytes height = 0;
};

}  // namespace dsa
