// Exact search for small models with gaps or fixed offsets, of which the tree search proves
// nothing. Cold.
#pragma once

#include "planner/strategy.h"

namespace dsa {

// Is it the one to ask? It recurses once for each item and looks at all pairs, so it takes small
// models only.
bool can_search(const Model& model);

// Improves on `best` until it is proved optimal or the budget is spent.
Found canonical_search(const Model& model, Offsets best, const Budget& budget);

}  // namespace dsa
