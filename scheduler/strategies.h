// The strategies' own signatures. Each improves an incumbent until it can do no more, the deadline
// has passed or the incumbent is proved optimal; none of them can make it worse. Cold.
#pragma once

#include <cstdint>

#include "scheduler/incumbent.h"
#include "scheduler/problem.h"

namespace schedule {

struct Search {
  const Problem& problem;
  Incumbent& incumbent;
  Deadline deadline;
  std::uint64_t seed = 1;

  bool over() const { return incumbent.closed() || deadline.passed(); }
};

using Run = void (*)(Search&);

#define ROW(name, function, exact, source) void function(Search& search);
#define SOLVER_ROW(name, function, exact, source) [[gnu::weak]] void function(Search& search);
#include "scheduler/strategies.def"
#undef SOLVER_ROW
#undef ROW

}  // namespace schedule
