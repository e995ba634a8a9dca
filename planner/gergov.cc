// Gergov's approximation: an infeasible placement in which buffers may overlap, then first fit in
// its order. Cold.
//
// First phase: boxes of free memory, each open to the top, are taken lowest first; a box takes the
// first buffer in order of birth that lives in its time at all, even if it sticks out at the sides,
// where it overlaps others; what is left of the box, beside and above, are new boxes. The second
// phase places the buffers in the order of those offsets, each at the lowest place that is free.
// Source: Gergov, "Algorithms for Compile-Time Memory Optimization", 1999, as the MemoMalloc thesis
// uses it. The paper leaves open which of several buffers a box takes; here it is the first to be
// born. The paper's guarantees rest on its own second phase and are not claimed for this one.
#include <algorithm>
#include <queue>

#include "planner/orders.h"
#include "planner/strategies.h"

namespace dsa {
namespace {

struct Box {
  Offset bottom;
  Section lower;
  Section upper;
  friend bool operator<(const Box& a, const Box& b) {
    return a.bottom != b.bottom ? a.bottom > b.bottom : a.lower > b.lower;
  }
};

}  // namespace

Found gergov(const Model& model, const Budget& budget) {
  Order left = by_birth(model);
  Offsets offsets(model.items.size(), 0);
  std::priority_queue<Box> boxes;
  boxes.push({0, 0, static_cast<Section>(model.load.size())});
  while (!left.empty() && !boxes.empty()) {
    if (budget.expired()) {
      return {.reason = kOutOfTime};
    }
    const Box box = boxes.top();
    boxes.pop();
    const auto taken = std::find_if(left.begin(), left.end(), [&](ItemId id) {
      const Item& item = model.items[static_cast<std::size_t>(id)];
      return item.lower < box.upper && box.lower < item.upper;
    });
    if (taken == left.end()) {
      continue;  // nobody needs this box any more
    }
    const Item& item = model.items[static_cast<std::size_t>(*taken)];
    offsets[static_cast<std::size_t>(*taken)] = box.bottom;
    left.erase(taken);
    const Section lower = std::max(box.lower, item.lower);
    const Section upper = std::min(box.upper, item.upper);
    boxes.push({box.bottom + item.size, lower, upper});
    if (box.lower < lower) {
      boxes.push({box.bottom, box.lower, lower});
    }
    if (upper < box.upper) {
      boxes.push({box.bottom, upper, box.upper});
    }
  }
  return settle(model, offsets, budget);
}

}  // namespace dsa
