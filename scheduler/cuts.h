// The cheapest state in which a node can run, by a minimum cut. Gives lower bounds, and states that
// good orders pass through. Cold.
#pragma once

#include <optional>

#include "scheduler/deadline.h"
#include "scheduler/problem.h"
#include "scheduler/state_network.h"

namespace schedule {

// Source: scheduler/README.md, cuts. The level is a cut function of the set that has run (a storage
// costs its bytes if its producer is in and a reader is out), so its minimum over all sets with the
// node's ancestors and without its descendants is a minimum cut.
// None if the time is up before.
std::optional<CheapestState> cheapest_state(const Problem& problem, NodeId node,
                                            const Deadline& deadline);

// A weaker bound in O(V + E): no node runs with less than what it reads, makes and works in.
Bytes bound_by_operators(const Problem& problem);

}  // namespace schedule
