// Trees inside a problem, whose best order does not depend on anything else. Cold.
#pragma once

#include "scheduler/problem.h"

namespace schedule {

// Adds precedence between the nodes of each in-tree that shares no storage with the rest, so that
// its nodes run in the one order that is best whatever runs between them: some best order of the
// problem agrees. An order from before stays valid for the problem that it was made for, but may
// disagree with the new precedence. Source: Liu 1987, "An application of generalized tree pebbling
// to sparse matrix factorization"; Abdel-Wahab and Kameda 1978. O(E log^2 V).
void linearize_trees(Problem& problem);

}  // namespace schedule
