// Two passes over an order that never raise its peak: what frees runs earlier, what allocates
// later. Cold.
#pragma once

#include "scheduler/deadline.h"
#include "scheduler/problem.h"

namespace schedule {

// Runs each node as soon as it does not raise the level and fits under the order's own peak; all
// others in the given order. The level before each other node is at most what it was. Source:
// scheduler/README.md, exchange argument. O(E log V).
Order free_early(const Problem& problem, const Order& order);

// The mirror image, from the last node to the first: nodes that allocate more than they free run as
// late as their readers permit. The same guarantee, but for savings by overwriting. O(E log V).
Order allocate_late(const Problem& problem, const Order& order);

// Both passes in turn until the peak no longer falls or the time is up. Not higher than the given
// order.
Order settle(const Problem& problem, Order order, const Deadline& deadline);

}  // namespace schedule
