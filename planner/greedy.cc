// The strategies that place one buffer after the other, each a row of orders.def; and bump. Cold.
#include <algorithm>

#include "planner/orders.h"
#include "planner/strategies.h"

namespace dsa {

#define ORDER(function, order, fit)                          \
  Found function(const Model& model, const Budget& budget) { \
    return place_in_order(model, order(model), fit, budget); \
  }
#include "planner/orders.def"
#undef ORDER

Found bump(const Model& model, const Budget& budget) {
  const Order order = by_birth(model);
  if (model.has_fixed) {  // the room left between the fixed ones is not a bump allocator's to use
    return place_in_order(
        model, order,
        [](const Item& item, const std::vector<Extent>& neighbours) {
          Offset top = 0;
          for (const Extent& other : neighbours) {
            top = std::max(top, other.upper);
          }
          return align_up(top, item.alignment);
        },
        budget);
  }
  Offsets offsets(model.items.size());
  Offset top = 0;
  for (const ItemId id : order) {
    const Item& item = model.items[static_cast<std::size_t>(id)];
    offsets[static_cast<std::size_t>(id)] = align_up(top, item.alignment);
    top = offsets[static_cast<std::size_t>(id)] + item.size;
  }
  return {.offsets = std::move(offsets)};
}

}  // namespace dsa
