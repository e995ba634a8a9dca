// Mends a plan where it is too high, a window of time after the other. Cold.
#pragma once

#include "planner/strategy.h"

namespace dsa {

// Lowers the highest place of the plan again and again until it is within the target, the budget is
// spent or nothing helps: what lives in a window of time around it is packed again by squeaky wheel,
// and what reaches beyond the window stays where it is. A window that does not get lower is tried
// wider next. Never higher than `offsets`, which must be a plan.
//
// So the effort goes where the load is near the target, which in a long problem is a small part.
// Source: Shaw, "Using Constraint Programming and Local Search Methods to Solve Vehicle Routing
// Problems", 1998, for the large neighbourhoods; measured by bench/planner_quality --large.
Offsets repair(const Model& model, Offsets offsets, const Budget& budget);

}  // namespace dsa
