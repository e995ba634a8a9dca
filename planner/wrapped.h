// Loops: buffers whose lifetimes wrap round the end of a period. Cold.
//
// Cut open at the period's end, the problem has no gaps, and the searches for such problems come
// near to the load. Only there the plan is wrong: what comes round lies at one offset at the end
// and at another at the beginning. So the planner packs an arc of the period, from its beginning
// on, a second time. What comes round is fixed there where it lay at the end, and what reaches
// beyond the arc where it lies.
//
//   offset
//     ^  aaa                     aa      a: comes round, fixed
//     |   arc, packed again   |b          b: reaches beyond the arc, fixed
//     |  ccccc               bbb cc
//     +-----------------------------> time, one period
#pragma once

#include "planner/strategy.h"

namespace dsa {

// Do all gaps of the model come from lifetimes that wrap, and has nothing a fixed offset?
bool is_wrapped(const Model& model);

// The best plan in the time. `search` plans models without gaps, some of them with fixed offsets.
// Requires is_wrapped(model).
Found plan_wrapped(const Model& model, const Budget& budget,
                   Found (*search)(const Model& model, const Budget& budget));

}  // namespace dsa
