// Joins buffers that fit each other exactly, so that fewer are left to pack. Cold.
//
// Two items of one lifetime become one, the second on top of the first; two of one size, of which
// one is born where the other dies, become one that lives through both. What has been joined is
// joined on. Either may cost the optimum, so this is an attempt among others; but where no memory
// is ever idle such fits are no accident: a rectangle cut into pieces by straight cuts, each
// through one piece, comes back whole.
#pragma once

#include <optional>

#include "planner/blocks.h"
#include "planner/strategy.h"

namespace dsa {

// Is hardly any memory idle at any time of the fullest plan there could be, so that joining pays?
// False for models with gaps, alignments or fixed offsets.
bool can_coalesce(const Model& model);

// The model's items, joined as far as could be within the budget. Requires can_coalesce().
Blocks coalesce(const Model& model, const Budget& budget);

// The roots as a problem of their own, in order of their indices.
Problem problem_of(const Blocks& blocks);

// The offsets of the model's items, the roots being where `offsets` has them in that order.
Offsets take_apart(const Blocks& blocks, const Offsets& offsets);

}  // namespace dsa
