// Finds articulation points with two sweeps. In a topological order, every later node descends from
// order[i] exactly if each of them has a predecessor at position i or later (by induction from i +
// 1 on); and likewise every earlier node is an ancestor if each has a successor at i or earlier.
#include "scheduler/divide.h"

#include <algorithm>
#include <limits>

namespace schedule {

std::vector<std::size_t> articulation_positions(const Problem& problem, const Order& order) {
  const std::size_t count = order.size();
  std::vector<std::ptrdiff_t> place(count);
  for (std::size_t i = 0; i < count; ++i) {
    place[at(order[i])] = static_cast<std::ptrdiff_t>(i);
  }
  // rooted[i]: the least, over all later nodes, of the place of their last predecessor.
  std::vector<std::ptrdiff_t> rooted(count + 1, std::numeric_limits<std::ptrdiff_t>::max());
  for (std::size_t i = count; i-- > 0;) {
    std::ptrdiff_t last = -1;
    for (const NodeId pred : problem.preds[order[i]]) {
      last = std::max(last, place[at(pred)]);
    }
    rooted[i] = std::min(rooted[i + 1], last);
  }
  std::vector<std::size_t> positions;
  // The greatest, over all earlier nodes, of the place of their first successor.
  std::ptrdiff_t reaching = -1;
  for (std::size_t i = 0; i < count; ++i) {
    const auto here = static_cast<std::ptrdiff_t>(i);
    if (reaching <= here && rooted[i + 1] >= here) {
      positions.push_back(i);
    }
    std::ptrdiff_t first = std::numeric_limits<std::ptrdiff_t>::max();
    for (const NodeId succ : problem.succs[order[i]]) {
      first = std::min(first, place[at(succ)]);
    }
    reaching = std::max(reaching, first);
  }
  return positions;
}

}  // namespace schedule
