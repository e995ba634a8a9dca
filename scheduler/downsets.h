// The exact search over downsets, usable on a part of a problem. Cold.
#pragma once

#include <cstddef>
#include <limits>

#include "scheduler/incumbent.h"
#include "scheduler/problem.h"

namespace schedule {

struct DownsetLimits {
  Deadline deadline;
  std::size_t bytes = std::size_t{1} << 30;  // most memory for the states that were visited
  // An order that is not below is not looked for.
  Bytes ceiling = std::numeric_limits<Bytes>::max();
};

// Improves the incumbent to the optimum, or as far as the limits permit; raises its bound on the
// way. Answers whether the search came to its end, so that the incumbent is proved optimal, or, as
// its bound tells, no order is below the ceiling.
bool search_downsets(const Problem& problem, Incumbent& incumbent, const DownsetLimits& limits,
                     std::string_view by);

}  // namespace schedule
