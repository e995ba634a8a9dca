// Orders in which items are placed, and the one loop that places them. Cold.
#pragma once

#include <vector>

#include "planner/occupancy.h"
#include "planner/strategy.h"

namespace dsa {

using Order = std::vector<ItemId>;

// Each returns all items of the model once; ties are broken by birth, then by index.
Order by_birth(const Model& model);
Order by_size(const Model& model);       // the largest first
Order by_lifetime(const Model& model);   // the longest lived first, in sections of its hull
Order by_area(const Model& model);       // the greatest size times lifetime first
Order by_long_life(const Model& model);  // the same, lifetime to the 16th power
// The sections of the greatest load first, in each the largest item first.
// Source: Pisarchyk & Lee, section 5.3.
Order by_breadth(const Model& model);

// The number of sections that the item is alive in.
Section lifetime(const Model& model, const Item& item);

using Fit = Offset (*)(const Item&, const std::vector<Extent>&);

// Two fixed items overlap: there is no plan at all.
bool fixed_overlap(const Model& model);

// Places fixed items first, then the others in order, each by `fit`.
Found place_in_order(const Model& model, const Order& order, Fit fit, const Budget& budget);

// Moves every item as far down as it goes, in ascending order of the given offsets, which may
// disregard alignment and fixed offsets; the result does not. Never higher for offsets that were a
// plan.
Found settle(const Model& model, const Offsets& offsets, const Budget& budget);

}  // namespace dsa
