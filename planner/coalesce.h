// Joins buffers that fit each other exactly, so that fewer are left to pack. Cold.
//
// Two items of one lifetime become one, the second on top of the first; two of one size, of which
// one is born where the other dies, become one that lives through both. What has been joined is
// joined on. Either may cost the optimum, so this is an attempt among others; but where no memory
// is ever idle such fits are no accident: a rectangle cut into pieces by straight cuts, each
// through one piece, comes back whole.
#pragma once

#include <optional>

#include "planner/strategy.h"

namespace dsa {

// A skyline pass over the joined items, which are then taken apart. None if there was nothing to
// join, or for models with gaps, alignments or fixed offsets.
Found coalesce(const Model& model, const Budget& budget);

}  // namespace dsa
