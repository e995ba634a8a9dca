// The exact search on a whole graph: between articulation points, and with coarse sizes. Cold.
#pragma once

#include "scheduler/strategies.h"

namespace schedule {

// Searches each part between two articulation points for its optimum, as far as time permits. The
// parts are independent: the peak is their greatest, and so is the bound.
void solve_parts(Search& search);

// The problem in which storages, workspaces and savings of less than `least` bytes need none. No
// order is higher in it, so that its bounds hold for the problem itself.
Problem without_small(const Problem& problem, Bytes least);

}  // namespace schedule
