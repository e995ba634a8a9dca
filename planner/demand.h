// How high each section must end at least: its load and what has been wasted below it. Cold.
//
// A segment tree of maxima. Adding to a span and finding its greatest demand cost O(log sections).
#pragma once

#include <cstdint>
#include <vector>

#include "planner/model.h"

namespace dsa {

class Demand {
 public:
  explicit Demand(const Model& model);

  void reset();                               // nothing has been wasted
  void waste(const Span& span, Bytes bytes);  // of each section of a span that is not empty

  struct Most {
    Bytes height;
    Section section;
  };
  // The greatest demand in a span that is not empty, and the first section that has it.
  Most most(const Span& span) const;

 private:
  struct Node {
    Bytes most = 0;  // of its sections, without what is added to its ancestors
    Bytes added = 0;
  };

  // The sections [lower, upper) are those of node x.
  void add(std::size_t x, const Span& sections, const Span& span, Bytes bytes);
  void find(std::size_t x, const Span& sections, const Span& span, Bytes above, Most& best) const;

  const Model& model_;
  std::size_t leaves_;  // a power of two
  std::vector<Node> nodes_;
};

}  // namespace dsa
