// Builds and maintains the k-d tree. Cold.
#include "planner/fit_tree.h"

#include <numeric>

namespace dsa {

FitTree::FitTree(const Model& model)
    : entry_of_part_(model.parts.size()),
      leaf_of_part_(model.parts.size()),
      births_(model.parts.size()),
      first_born_(model.load.size() + 1),
      birth_of_part_(model.parts.size()) {
  for (const Span& part : model.parts) {
    ++first_born_[static_cast<std::size_t>(part.lower) + 1];
  }
  std::partial_sum(first_born_.begin(), first_born_.end(), first_born_.begin());
  std::vector<std::uint32_t> next(first_born_);
  entries_.reserve(model.parts.size());
  for (std::size_t i = 0; i < model.items.size(); ++i) {
    for (std::uint32_t p = model.items[i].first_part; p < model.items[i].last_part; ++p) {
      entries_.push_back({model.parts[p], static_cast<ItemId>(i), kNoRank, p});
      birth_of_part_[p] = next[static_cast<std::size_t>(model.parts[p].lower)]++;
      births_[birth_of_part_[p]] = {model.parts[p].upper, kNoRank, static_cast<ItemId>(i)};
    }
  }
  nodes_.push_back({.last = static_cast<std::uint32_t>(entries_.size())});
  build(0, 0);
  for (std::uint32_t i = 0; i < entries_.size(); ++i) {
    entry_of_part_[entries_[i].part] = i;
  }
}

void FitTree::build(std::uint32_t index, int depth) {
  const std::uint32_t first = nodes_[index].first;
  const std::uint32_t last = nodes_[index].last;
  const auto begin = entries_.begin();
  if (first < last) {
    Node& node = nodes_[index];
    node.inner = entries_[first].span;
    node.lower_min = entries_[first].span.lower;
    node.upper_max = entries_[first].span.upper;
    for (std::uint32_t i = first; i < last; ++i) {
      const Span& span = entries_[i].span;
      node.inner.lower = std::max(node.inner.lower, span.lower);
      node.inner.upper = std::min(node.inner.upper, span.upper);
      node.lower_min = std::min(node.lower_min, span.lower);
      node.upper_max = std::max(node.upper_max, span.upper);
    }
  }
  if (last - first <= kLeafSize) {
    for (std::uint32_t i = first; i < last; ++i) {
      leaf_of_part_[entries_[i].part] = index;
    }
    return;
  }
  const std::uint32_t middle = first + (last - first) / 2;
  std::nth_element(
      begin + first, begin + middle, begin + last, [depth](const Entry& a, const Entry& b) {
        return depth % 2 == 0 ? a.span.lower < b.span.lower : a.span.upper < b.span.upper;
      });
  const auto left = static_cast<std::uint32_t>(nodes_.size());
  nodes_[index].left = left;
  nodes_.push_back({.first = first, .last = middle, .parent = index});
  nodes_.push_back({.first = middle, .last = last, .parent = index});
  build(left, depth + 1);
  build(left + 1, depth + 1);
}

void FitTree::refresh(std::uint32_t index) {
  Node& node = nodes_[index];
  if (node.left != 0) {
    node.best = std::min(nodes_[node.left].best, nodes_[node.left + 1].best);
    return;
  }
  node.best = kNoRank;
  for (std::uint32_t i = node.first; i < node.last; ++i) {
    node.best = std::min(node.best, entries_[i].rank);
  }
}

void FitTree::reset(const std::vector<Rank>& ranks) {
  for (Entry& entry : entries_) {
    entry.rank = ranks[static_cast<std::size_t>(entry.item)];
  }
  for (Birth& birth : births_) {
    birth.rank = ranks[static_cast<std::size_t>(birth.item)];
  }
  // Children have greater indices than their parent.
  for (auto index = static_cast<std::uint32_t>(nodes_.size()); index-- > 0;) {
    refresh(index);
  }
}

void FitTree::remove(const Item& item) {
  for (std::uint32_t p = item.first_part; p < item.last_part; ++p) {
    Entry& entry = entries_[entry_of_part_[p]];
    const Rank gone = entry.rank;
    entry.rank = kNoRank;
    births_[birth_of_part_[p]].rank = kNoRank;
    for (std::uint32_t index = leaf_of_part_[p];; index = nodes_[index].parent) {
      if (nodes_[index].best != gone) {
        break;  // nothing above depends on this entry
      }
      refresh(index);
      if (index == 0) {
        break;
      }
    }
  }
}

}  // namespace dsa
