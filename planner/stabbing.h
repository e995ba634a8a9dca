// The items alive in a section, listed in O(log sections + items). Cold; read-only once built.
#pragma once

#include <bit>
#include <cstdint>
#include <numeric>
#include <vector>

#include "planner/model.h"

namespace dsa {

class Stabbing {
 public:
  explicit Stabbing(const Model& model)
      : leaves_(std::bit_ceil(std::max<std::size_t>(model.load.size(), 1))),
        first_(2 * leaves_ + 1) {
    for_each_node(model, [this](std::size_t node, ItemId) { ++first_[node + 1]; });
    std::partial_sum(first_.begin(), first_.end(), first_.begin());
    items_.resize(first_.back());
    std::vector<std::uint32_t> next(first_.begin(), first_.end() - 1);
    for_each_node(model, [&](std::size_t node, ItemId id) { items_[next[node]++] = id; });
  }

  template <typename Visit>
  void for_each(Section section, Visit visit) const {
    for (auto node = static_cast<std::size_t>(section) + leaves_; node > 0; node /= 2) {
      for (std::uint32_t i = first_[node]; i < first_[node + 1]; ++i) {
        visit(items_[i]);
      }
    }
  }

 private:
  // Calls visit for the O(log sections) nodes that together cover each part.
  template <typename Visit>
  void for_each_node(const Model& model, Visit visit) const {
    for (std::size_t i = 0; i < model.items.size(); ++i) {
      for (const Span& part : model.parts_of(model.items[i])) {
        auto lower = static_cast<std::size_t>(part.lower) + leaves_;
        auto upper = static_cast<std::size_t>(part.upper) + leaves_;
        for (; lower < upper; lower /= 2, upper /= 2) {
          if (lower % 2 == 1) {
            visit(lower++, static_cast<ItemId>(i));
          }
          if (upper % 2 == 1) {
            visit(--upper, static_cast<ItemId>(i));
          }
        }
      }
    }
  }

  std::size_t leaves_;
  std::vector<std::uint32_t> first_;  // by tree node: where its items begin
  std::vector<ItemId> items_;
};

}  // namespace dsa
