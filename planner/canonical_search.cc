// Branch and bound over placements in ascending order of offset. Cold.
//
// Any plan can be pushed down until each buffer rests on another, and then be rebuilt in ascending
// order of (offset, index). So each step places an item at the lowest offset that what is placed
// allows it, no lower than the last one; and no higher than some other could end, since that one
// could go below. Source: Moffitt, "MiniMalloc", 2023, section 4.
#include "planner/canonical_search.h"

#include <algorithm>
#include <limits>

namespace dsa {
namespace {

class CanonicalSearch {
 public:
  CanonicalSearch(const Model& model, Offsets best, const Budget& budget)
      : model_(model), budget_(budget), best_(std::move(best)), floors_(model.items.size(), 0) {
    height_ = height_of(model, best_);
    offsets_.assign(model.items.size(), -1);
    for (std::size_t i = 0; i < model.items.size(); ++i) {
      for (std::size_t j = 0; j < model.items.size(); ++j) {
        if (i != j && conflict(model.items[i], model.items[j])) {
          neighbours_.push_back(static_cast<ItemId>(j));
        }
      }
      last_neighbour_.push_back(neighbours_.size());
    }
  }

  Found run() {
    descend(0, 0, -1, model_.resting_height);
    Found found{.offsets = std::move(best_)};
    found.optimal = !stopped_ && height_ > budget_.target();
    return found;
  }

 private:
  bool conflict(const Item& a, const Item& b) const {
    if (a.upper <= b.lower || b.upper <= a.lower) {
      return false;
    }
    for (const Span& x : model_.parts_of(a)) {
      for (const Span& y : model_.parts_of(b)) {
        if (x.lower < y.upper && y.lower < x.upper) {
          return true;
        }
      }
    }
    return false;
  }

  template <typename Visit>
  void for_each_neighbour(std::size_t i, Visit visit) {
    for (std::size_t k = i == 0 ? 0 : last_neighbour_[i - 1]; k < last_neighbour_[i]; ++k) {
      if (const auto j = static_cast<std::size_t>(neighbours_[k]); offsets_[j] < 0) {
        visit(j);
      }
    }
  }

  // Where item i would go now; -1 if its fixed offset is taken or has been passed.
  Offset place_of(std::size_t i, Offset last) const {
    const Item& item = model_.items[i];
    if (item.fixed != kNotFixed) {
      return floors_[i] <= item.fixed && last <= item.fixed ? item.fixed : -1;
    }
    return align_up(std::max(floors_[i], last), item.alignment);
  }

  // Places the rest; `last` and `index` are of the item placed last.
  void descend(std::size_t placed, Offset last, std::ptrdiff_t index, Bytes height) {
    if (placed == model_.items.size()) {
      height_ = height;
      best_ = offsets_;
      return;
    }
    if (++steps_ % 256 == 0 && budget_.expired()) {
      stopped_ = true;
    }
    Offset ceiling = std::numeric_limits<Offset>::max();
    std::vector<std::pair<Offset, std::size_t>> candidates;
    for (std::size_t i = 0; i < offsets_.size(); ++i) {
      if (offsets_[i] >= 0) {
        continue;
      }
      const Offset offset = place_of(i, last);
      if (offset < 0 || offset + model_.items[i].size >= height_) {
        return;  // i fits nowhere below the best
      }
      if (model_.items[i].fixed == kNotFixed) {
        ceiling = std::min(ceiling, offset + model_.items[i].size);
      }
      // An item that could have gone lower, before the last ones, must wait until something lifts
      // it.
      const bool waits = model_.items[i].fixed == kNotFixed &&
                         align_up(floors_[i], model_.items[i].alignment) < last;
      if (!waits && (offset > last || static_cast<std::ptrdiff_t>(i) > index)) {
        candidates.emplace_back(offset, i);
      }
    }
    std::sort(candidates.begin(), candidates.end(), [this](const auto& a, const auto& b) {
      return a.first != b.first ? a.first < b.first
                                : model_.items[a.second].size > model_.items[b.second].size;
    });
    for (const auto& [offset, i] : candidates) {
      if (offset >= ceiling || stopped_ || height_ <= budget_.target()) {
        return;
      }
      place(placed, offset, i, height);
    }
  }

  void place(std::size_t placed, Offset offset, std::size_t i, Bytes height) {
    const Offset top = offset + model_.items[i].size;
    offsets_[i] = offset;
    std::vector<std::pair<std::size_t, Offset>> lifted;
    for_each_neighbour(i, [&](std::size_t j) {
      if (floors_[j] < top) {
        lifted.emplace_back(j, floors_[j]);
        floors_[j] = top;
      }
    });
    if (std::max(top, height) < height_) {
      descend(placed + 1, offset, static_cast<std::ptrdiff_t>(i), std::max(top, height));
    }
    for (const auto& [j, floor] : lifted) {
      floors_[j] = floor;
    }
    offsets_[i] = -1;
  }

  const Model& model_;
  const Budget& budget_;
  Offsets best_;
  Bytes height_;  // of best_
  Offsets offsets_;
  std::vector<Offset> floors_;
  std::vector<ItemId> neighbours_;  // of all items, one after the other
  std::vector<std::size_t> last_neighbour_;
  std::uint64_t steps_ = 0;
  bool stopped_ = false;
};

}  // namespace

bool can_search(const Model& model) {
  constexpr std::size_t kMaxItems = 60;
  return (model.has_gaps || model.has_fixed) && model.items.size() <= kMaxItems;
}

Found canonical_search(const Model& model, Offsets best, const Budget& budget) {
  if (!can_search(model)) {
    return {.offsets = std::move(best)};
  }
  return CanonicalSearch(model, std::move(best), budget).run();
}

}  // namespace dsa
