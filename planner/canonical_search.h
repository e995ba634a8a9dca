// Exact search that also knows gaps and fixed offsets, for small models. Cold.
#pragma once

#include "planner/strategy.h"

namespace dsa {

// It recurses once for each item and looks at all pairs, so it takes small models only.
bool can_search(const Model& model);

// Improves on `best` until it is proved optimal or the budget is spent.
Found canonical_search(const Model& model, Offsets best, const Budget& budget);

}  // namespace dsa
