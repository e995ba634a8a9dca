// Declares the function of every row of planners.def. Cold.
#pragma once

#include "planner/strategy.h"

namespace dsa {

#define ROW(name, function, exact, source) Found function(const Model& model, const Budget& budget);
#include "planner/planners.def"
#undef ROW

}  // namespace dsa
