// The offline dynamic storage allocation problem: each buffer's place in time is given, its place
// in memory is sought. Plain value types, which the planners, the validator and the engine share.
//
// An example. Four buffers, by time and size:
//
//   Problem problem{{{.lower = 0, .upper = 4, .size = 2},    // a
//                    {.lower = 1, .upper = 3, .size = 3},    // b
//                    {.lower = 3, .upper = 6, .size = 3},    // c
//                    {.lower = 4, .upper = 6, .size = 2}}};  // d
//
// A plan gives each an offset, so that buffers that live at the same time share no address:
//
//   offset
//     5 ^     +-------+-----------+
//       |     |   b   |     c     |       offsets = {0, 2, 2, 0}
//     2 | +---+-------+---+-------+       height  = 5
//       | |       a       |   d   |
//     0 +-+---+-------+---+-------+--->
//         0   1       3   4       6  time
//
// Lifetimes are half-open: b is dead at 3, where c is born, so c may have b's bytes; d may have
// a's. At times 1 and 2, a and b need 5 together, and so do a and c at 3: no plan is lower, and
// this one is optimal.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace dsa {

// Steps; any origin.
using Time = std::int64_t;
// A size in bytes, never negative.
using Bytes = std::int64_t;
// A distance in bytes from the start of the memory, never negative.
using Offset = std::int64_t;

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
  // Parts of the lifetime in which the buffer is dead, and its memory may serve others. A buffer of
  // a loop that lives beyond the end of an iteration into the next one is written so:
  // {.lower = 0, .upper = end of the iteration, .gaps = {{its death, its birth}}}.
  std::vector<Interval> gaps = {};
  // The offset is given and must be kept.
  std::optional<Offset> fixed = {};
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
