// The segment tree of obstacles. Cold.
#include "planner/obstacles.h"

#include <algorithm>
#include <bit>
#include <numeric>

namespace dsa {

template <typename Visit>
void Obstacles::for_each_node(const Span& span, Visit visit) const {
  auto lower = static_cast<std::size_t>(span.lower) + leaves_;
  auto upper = static_cast<std::size_t>(span.upper) + leaves_;
  for (; lower < upper; lower /= 2, upper /= 2) {
    if (lower % 2 == 1) {
      visit(lower++);
    }
    if (upper % 2 == 1) {
      visit(--upper);
    }
  }
}

Obstacles::Obstacles(const Model& model) {
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
  leaves_ = std::bit_ceil(std::max<std::size_t>(model.load.size(), 1));
  first_.assign(2 * leaves_ + 1, 0);
  for (const Obstacle& obstacle : obstacles_) {
    for_each_node(obstacle.span, [this](std::size_t node) { ++first_[node + 1]; });
  }
  std::partial_sum(first_.begin(), first_.end(), first_.begin());
  listed_.resize(first_.back());
  next_.assign(first_.begin(), first_.end() - 1);
  for (std::uint32_t i = 0; i < obstacles_.size(); ++i) {
    for_each_node(obstacles_[i].span, [&](std::size_t node) { listed_[next_[node]++] = i; });
  }
  least_.resize(2 * leaves_);
}

void Obstacles::reset() {
  if (any()) {
    next_.assign(first_.begin(), first_.end() - 1);
    for (std::size_t node = 2 * leaves_; --node > 0;) {
      refresh(node);
    }
  }
}

void Obstacles::refresh(std::size_t node) {
  least_[node] = own(node);
  if (node < leaves_) {
    least_[node] = std::min({least_[node], least_[2 * node], least_[2 * node + 1]});
  }
}

const Obstacles::Obstacle* Obstacles::lowest(const Span& span) const {
  std::uint32_t least = kNone;
  for_each_node(span, [&](std::size_t node) { least = std::min(least, least_[node]); });
  // Whatever is listed above those nodes is listed above one of the ends.
  auto left = static_cast<std::size_t>(span.lower) + leaves_;
  auto right = static_cast<std::size_t>(span.upper) - 1 + leaves_;
  for (; left > 0; left /= 2, right /= 2) {
    least = std::min({least, own(left), own(right)});
  }
  return least == kNone ? nullptr : &obstacles_[least];
}

void Obstacles::pass(const Obstacle& obstacle) {
  for_each_node(obstacle.span, [this](std::size_t node) {
    ++next_[node];
    for (; node > 0; node /= 2) {
      refresh(node);
    }
  });
}

}  // namespace dsa
