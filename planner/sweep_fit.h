// Best fit as a running allocator does it: time passes, memory is freed and taken. Cold.
#pragma once

#include "planner/strategy.h"

namespace dsa {

// O(n log n), in microseconds for hundreds of items and a fraction of a second for a million: the
// plan to fall back on when there is time for nothing else. Gaps are not used, and fixed offsets
// are kept by one more pass of first fit.
Found sweep_best_fit(const Model& model, const Budget& budget, Bytes floor = 0);

}  // namespace dsa
