// The shape of a segment tree over the sections: which nodes cover a span, and which lie above a
// section. Cold.
//
// What a user keeps at each node is its own business. Node 1 is the root, the children of node x
// are 2x and 2x + 1, and the sections are the leaves, the last nodes of all.
//
//              1                  [1, 4) is covered by the nodes 5 and 3: each section of it lies
//          2       3              below exactly one of them.
//        4   5   6   7
//   section 0 1 2 3               Above section 1 lie 5 (itself), 2 and 1.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>

#include "planner/model.h"

namespace dsa {

class SectionTree {
 public:
  explicit SectionTree(const Model& model)
      : leaves_(std::bit_ceil(std::max<std::size_t>(model.load.size(), 1))) {}

  std::size_t nodes() const { return 2 * leaves_; }  // node numbers are below this, and not 0
  bool is_leaf(std::size_t node) const { return node >= leaves_; }
  std::size_t leaf(Section section) const { return leaves_ + static_cast<std::size_t>(section); }

  // Calls visit(node) for the O(log sections) nodes that together cover the span.
  template <typename Visit>
  void for_each_cover(const Span& span, Visit visit) const {
    std::size_t lower = leaf(span.lower);
    std::size_t upper = leaf(span.upper);
    for (; lower < upper; lower /= 2, upper /= 2) {
      if (lower % 2 == 1) {
        visit(lower++);
      }
      if (upper % 2 == 1) {
        visit(--upper);
      }
    }
  }

  // Calls visit(node) for the section's leaf and all nodes above it, upwards.
  template <typename Visit>
  void for_each_above(Section section, Visit visit) const {
    for (std::size_t node = leaf(section); node > 0; node /= 2) {
      visit(node);
    }
  }

 private:
  std::size_t leaves_;  // a power of two
};

}  // namespace dsa
