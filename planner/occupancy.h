// Which placed items share a section with a given one: the neighbours that a first-fit looks at.
// Cold.
//
// An item's neighbours are those alive in its first section, found on one path of a segment tree,
// and those born later within its lifetime, found in a bit set ordered by birth. So a query costs
// O(log sections + parts/64 + neighbours) and no pair is looked at that does not overlap.
#pragma once

#include <cstdint>
#include <vector>

#include "planner/model.h"
#include "planner/section_tree.h"

namespace dsa {

// A placed range of addresses [lower, upper).
struct Extent {
  Offset lower = 0;
  Offset upper = 0;
};

class Occupancy {
 public:
  explicit Occupancy(const Model& model);

  void place(ItemId item, Offset offset);

  // The extents of all placed items that share a section with `item`, ascending by lower end. Valid
  // until the next call.
  const std::vector<Extent>& neighbours(ItemId item);

  std::vector<Offset> take_offsets() { return std::move(offsets_); }

 private:
  void collect(const Span& part);

  const Model& model_;
  SectionTree tree_;
  std::vector<std::vector<ItemId>> alive_;  // by node of it: items alive in all its sections
  std::vector<ItemId> item_by_birth_;       // by birth rank of a part
  std::vector<std::uint32_t> rank_;         // by part
  std::vector<std::uint32_t> first_rank_;   // by section: rank of the first part born there
  std::vector<std::uint64_t> born_;         // bit set by rank: the part's item is placed
  std::vector<Offset> offsets_;
  std::vector<Extent> found_;
};

// The lowest offset at which the item fits among its neighbours.
Offset lowest_gap(const Item& item, const std::vector<Extent>& neighbours);

// The offset in the smallest gap between neighbours that the item fits in, the lowest of equal
// ones; on top of them all if there is none. Source: Pisarchyk & Lee, "Efficient Memory Management
// for Deep Neural Net Inference", algorithm 3.
Offset tightest_gap(const Item& item, const std::vector<Extent>& neighbours);

}  // namespace dsa
