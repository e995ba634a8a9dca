// The unplaced item of the best rank whose lifetime lies inside a given span: a k-d tree over
// (lower, upper) whose nodes know the best rank below them. Cold.
//
// Every part of an item is an entry; entries disappear as items are placed. A query costs
// O(sqrt(parts)) at worst and a walk down the tree in the usual case. Where few are born inside the
// span, they are looked at one by one instead, which memory likes better.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "planner/model.h"

namespace dsa {

using Rank = std::uint32_t;  // 0 is placed first
inline constexpr Rank kNoRank = ~Rank{0};

class FitTree {
 public:
  explicit FitTree(const Model& model);

  // Makes all items unplaced, with these ranks (by item).
  void reset(const std::vector<Rank>& ranks);
  void remove(const Item& item);

  // The item of the best rank with a part inside `span` that `admits` accepts, or -1.
  template <typename Admits>
  ItemId best_inside(const Span& span, Admits admits) const {
    return best({span, span.upper - 1, span.lower + 1}, admits);
  }
  // The same of the parts that cover a section of the span.
  template <typename Admits>
  ItemId best_covering(Section section, const Span& span, Admits admits) const {
    return best({span, section, section + 1}, admits);
  }

 private:
  static constexpr std::uint32_t kLeafSize = 8;
  static constexpr std::uint32_t kFew = 128;

  struct Entry {
    Span span;
    ItemId item;
    Rank rank;
    std::uint32_t part;
  };
  struct Node {
    Span inner = {};        // greatest lower and least upper end of its entries
    Section lower_min = 0;  // least lower end
    Section upper_max = 0;  // greatest upper end
    Rank best = kNoRank;
    std::uint32_t first = 0;  // entries [first, last)
    std::uint32_t last = 0;
    std::uint32_t left = 0;  // children left and left + 1; 0 for a leaf
    std::uint32_t parent = 0;
  };
  struct Birth {
    Section upper;
    Rank rank;
    ItemId item;
  };
  struct Best {
    Rank rank = kNoRank;
    ItemId item = -1;
  };

  // Parts inside `span` that are born at `last_birth` at the latest and do not die before
  // `first_death`.
  struct Region {
    Span span;
    Section last_birth;
    Section first_death;
  };

  template <typename Admits>
  ItemId best(const Region& region, Admits admits) const {
    Best best;
    const std::uint32_t from = first_born_[static_cast<std::size_t>(region.span.lower)];
    const std::uint32_t to = first_born_[static_cast<std::size_t>(region.last_birth) + 1];
    if (to - from > kFew) {
      search(0, region, admits, best);
      return best.item;
    }
    for (std::uint32_t i = from; i < to; ++i) {
      const Birth& birth = births_[i];
      if (birth.rank < best.rank && birth.upper <= region.span.upper &&
          birth.upper >= region.first_death && admits(birth.item)) {
        best = {birth.rank, birth.item};
      }
    }
    return best.item;
  }

  void build(std::uint32_t node, int depth);
  void refresh(std::uint32_t node);

  template <typename Admits>
  void search(std::uint32_t index, const Region& region, Admits& admits, Best& best) const {
    const Span& span = region.span;
    const Node& node = nodes_[index];
    if (node.best >= best.rank || node.inner.lower < span.lower ||
        node.lower_min > region.last_birth || node.inner.upper > span.upper ||
        node.upper_max < region.first_death) {
      return;
    }
    if (node.left != 0) {
      const bool right_first = nodes_[node.left + 1].best < nodes_[node.left].best;
      search(node.left + (right_first ? 1 : 0), region, admits, best);
      search(node.left + (right_first ? 0 : 1), region, admits, best);
      return;
    }
    for (std::uint32_t i = node.first; i < node.last; ++i) {
      const Entry& entry = entries_[i];
      if (entry.rank < best.rank && entry.span.lower >= span.lower &&
          entry.span.lower <= region.last_birth && entry.span.upper <= span.upper &&
          entry.span.upper >= region.first_death && admits(entry.item)) {
        best = {entry.rank, entry.item};
      }
    }
  }

  std::vector<Entry> entries_;
  std::vector<Node> nodes_;
  std::vector<std::uint32_t> entry_of_part_;
  std::vector<std::uint32_t> leaf_of_part_;
  std::vector<Birth> births_;              // the parts in order of birth
  std::vector<std::uint32_t> first_born_;  // by section
  std::vector<std::uint32_t> birth_of_part_;
};

}  // namespace dsa
