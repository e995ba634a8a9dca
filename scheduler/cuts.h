// The cheapest state in which a node can run, by a minimum cut. Gives lower bounds, and states that
// good orders pass through. Cold.
#pragma once

#include <optional>
#include <vector>

#include "scheduler/deadline.h"
#include "scheduler/problem.h"

namespace schedule {

// The least memory that is alive while a node runs, whatever the order.
struct CheapestState {
  Bytes while_running = 0;   // a lower bound on every order's peak
  std::vector<bool> before;  // smallest set of nodes that has run in such a state, without the node
  std::vector<bool> before_largest;  // the largest such set
};

// Source: scheduler/README.md, cuts. The level is a cut function of the set that has run (a storage
// costs its bytes if its producer is in and a reader is out), so its minimum over all sets with the
// node's ancestors and without its descendants is a minimum cut.
// None if the time is up before.
std::optional<CheapestState> cheapest_state(const Problem& problem, NodeId node,
                                            const Deadline& deadline);

// A weaker bound in O(V + E): no node runs with less than what it reads, makes and works in.
Bytes bound_by_operators(const Problem& problem);

}  // namespace schedule
