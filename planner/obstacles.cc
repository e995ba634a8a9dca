// The segment tree of obstacles. Cold.
#include "planner/obstacles.h"

#include <algorithm>
#include <numeric>

namespace dsa {

Obstacles::Obstacles(const Model& model) : tree_(model) {
  if (!model.has_fixed) {
    return;
  }
  for (const Item& item : model.items) {
    if (item.fixed != kNotFixed) {
      for (const Span& part : model.parts_of(item)) {
        obstacles_.push_back({part, item.fixed, item.fixed + item.size});
      }
    }
  }
  std::sort(obstacles_.begin(), obstacles_.end(), [](const Obstacle& a, const Obstacle& b) {
    return a.bottom != b.bottom ? a.bottom < b.bottom : a.span.lower < b.span.lower;
  });
  first_.assign(tree_.nodes() + 1, 0);
  for (const Obstacle& obstacle : obstacles_) {
    tree_.for_each_cover(obstacle.span, [this](std::size_t node) { ++first_[node + 1]; });
  }
  std::partial_sum(first_.begin(), first_.end(), first_.begin());
  listed_.resize(first_.back());
  next_.assign(first_.begin(), first_.end() - 1);
  for (std::uint32_t i = 0; i < obstacles_.size(); ++i) {
    tree_.for_each_cover(obstacles_[i].span, [&](std::size_t node) { listed_[next_[node]++] = i; });
  }
  least_.resize(tree_.nodes());
}

void Obstacles::reset() {
  if (any()) {
    next_.assign(first_.begin(), first_.end() - 1);
    for (std::size_t node = tree_.nodes(); --node > 0;) {
      refresh(node);
    }
  }
}

void Obstacles::refresh(std::size_t node) {
  least_[node] = own(node);
  if (!tree_.is_leaf(node)) {
    least_[node] = std::min({least_[node], least_[2 * node], least_[2 * node + 1]});
  }
}

const Obstacles::Obstacle* Obstacles::lowest(const Span& span) const {
  std::uint32_t least = kNone;
  const std::uint32_t* const below = least_.data();
  tree_.for_each_cover(span, [&](std::size_t node) { least = std::min(least, below[node]); });
  // Whatever is listed above those nodes is listed above one of the ends.
  std::size_t left = tree_.leaf(span.lower);
  std::size_t right = tree_.leaf(span.upper - 1);
  for (; left > 0; left /= 2, right /= 2) {
    least = std::min({least, own(left), own(right)});
  }
  return least == kNone ? nullptr : &obstacles_[least];
}

void Obstacles::pass(const Obstacle& obstacle) {
  tree_.for_each_cover(obstacle.span, [this](std::size_t node) {
    ++next_[node];
    for (; node > 0; node /= 2) {
      refresh(node);
    }
  });
}

}  // namespace dsa
