// Where fixed items lie ahead of the skyline: the lowest of them above any span of sections. Cold.
//
// A segment tree over the sections. Each part of a fixed item is listed, in ascending order, at the
// O(log sections) nodes that together cover it. The skyline passes the obstacles over a section
// from the bottom up, so the ones passed are always a prefix of each list.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "planner/model.h"
#include "planner/section_tree.h"

namespace dsa {

class Obstacles {
 public:
  struct Obstacle {
    Span span;
    Offset bottom;
    Offset top;
  };

  explicit Obstacles(const Model& model);

  bool any() const { return !obstacles_.empty(); }
  void reset();  // none has been passed

  // The lowest obstacle over `span` that has not been passed; nullptr if there is none.
  const Obstacle* lowest(const Span& span) const;
  // The bottom of that, or the greatest offset there is.
  Offset ceiling(const Span& span) const {
    const Obstacle* const obstacle = any() ? lowest(span) : nullptr;
    return obstacle == nullptr ? std::numeric_limits<Offset>::max() : obstacle->bottom;
  }
  // Requires an obstacle that lowest() has returned for its own span since the last pass().
  void pass(const Obstacle& obstacle);

 private:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  std::uint32_t own(std::size_t node) const {
    return next_[node] < first_[node + 1] ? listed_[next_[node]] : kNone;
  }
  void refresh(std::size_t node);

  SectionTree tree_;
  std::vector<Obstacle>
      obstacles_;  // in ascending order of their bottoms, so indices compare alike
  std::vector<std::uint32_t> first_;   // by node: where its list in listed_ begins
  std::vector<std::uint32_t> listed_;  // indices of obstacles
  std::vector<std::uint32_t> next_;    // by node: the first of its list that is not passed
  std::vector<std::uint32_t> least_;   // by node: the lowest obstacle listed here or below
};

}  // namespace dsa
