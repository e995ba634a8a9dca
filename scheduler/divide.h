// Articulation points: nodes that every order runs in the same place. Cold.
#pragma once

#include <vector>

#include "scheduler/problem.h"

namespace schedule {

// Ascending positions i such that all nodes before order[i] are its ancestors and all after it its
// descendants. What lies between two of them can be ordered on its own. O(V + E).
std::vector<std::size_t> articulation_positions(const Problem& problem, const Order& order);

}  // namespace schedule
