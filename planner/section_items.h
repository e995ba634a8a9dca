// The items alive in a section, listed in O(log sections + items). Cold; read-only once built.
#pragma once

#include <cstdint>
#include <numeric>
#include <vector>

#include "planner/model.h"
#include "planner/section_tree.h"

namespace dsa {

class SectionItems {
 public:
  explicit SectionItems(const Model& model) : tree_(model), first_(tree_.nodes() + 1) {
    for_each_listing(model, [this](std::size_t node, ItemId) { ++first_[node + 1]; });
    std::partial_sum(first_.begin(), first_.end(), first_.begin());
    items_.resize(first_.back());
    std::vector<std::uint32_t> next(first_.begin(), first_.end() - 1);
    for_each_listing(model, [&](std::size_t node, ItemId id) { items_[next[node]++] = id; });
  }

  template <typename Visit>
  void for_each(Section section, Visit visit) const {
    tree_.for_each_above(section, [&](std::size_t node) {
      for (std::uint32_t i = first_[node]; i < first_[node + 1]; ++i) {
        visit(items_[i]);
      }
    });
  }

 private:
  // Calls visit for each item and each node that covers a part of it.
  template <typename Visit>
  void for_each_listing(const Model& model, Visit visit) const {
    for (std::size_t i = 0; i < model.items.size(); ++i) {
      for (const Span& part : model.parts_of(model.items[i])) {
        tree_.for_each_cover(part, [&](std::size_t node) { visit(node, static_cast<ItemId>(i)); });
      }
    }
  }

  SectionTree tree_;
  std::vector<std::uint32_t> first_;  // by node: where its items begin
  std::vector<ItemId> items_;
};

}  // namespace dsa
