// The orders and the loop that places items one after the other. Cold.
#include "planner/orders.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "planner/real_functions.h"

namespace dsa {
namespace {

template <typename Key>
Order sorted_by(const Model& model, Key key) {
  using Value = decltype(key(model.items[0]));
  std::vector<std::tuple<Value, Section, ItemId>> keyed;
  keyed.reserve(model.items.size());
  for (std::size_t i = 0; i < model.items.size(); ++i) {
    keyed.emplace_back(key(model.items[i]), model.items[i].lower, static_cast<ItemId>(i));
  }
  std::sort(keyed.begin(), keyed.end());
  Order order;
  order.reserve(keyed.size());
  for (const auto& [value, lower, id] : keyed) {
    order.push_back(id);
  }
  return order;
}

}  // namespace

Section lifetime(const Model& model, const Item& item) {
  Section sum = 0;
  for (const Span& part : model.parts_of(item)) {
    sum += part.upper - part.lower;
  }
  return sum;
}

Order by_birth(const Model& model) {
  return sorted_by(model, [](const Item&) { return 0; });
}

Order by_size(const Model& model) {
  return sorted_by(model, [](const Item& item) { return -item.size; });
}

Order by_lifetime(const Model& model) {
  return sorted_by(model, [&](const Item& item) { return -lifetime(model, item); });
}

Order by_area(const Model& model) {
  return sorted_by(model, [&](const Item& item) {
    return -static_cast<double>(item.size) * static_cast<double>(lifetime(model, item));
  });
}

Order by_long_life(const Model& model) {
  // Less lets short lives take the low places, more is worse where few blocks are alive at a time.
  constexpr double kPower = 16;
  return sorted_by(model, [&](const Item& item) {
    return -natural_log(static_cast<double>(item.size)) -
           kPower * natural_log(static_cast<double>(lifetime(model, item)));
  });
}

Order by_breadth(const Model& model) {
  std::vector<std::uint32_t> rank(model.load.size());  // by section: 0 for the most loaded
  std::vector<Section> sections(model.load.size());
  std::iota(sections.begin(), sections.end(), 0);
  std::stable_sort(sections.begin(), sections.end(), [&](Section a, Section b) {
    return model.load[static_cast<std::size_t>(a)] > model.load[static_cast<std::size_t>(b)];
  });
  for (std::size_t i = 0; i < sections.size(); ++i) {
    rank[static_cast<std::size_t>(sections[i])] = static_cast<std::uint32_t>(i);
  }
  // An item's turn comes with the most loaded of its sections: a range minimum, by a sparse table.
  std::vector<std::vector<std::uint32_t>> least{rank};
  for (std::size_t width = 1; 2 * width <= rank.size(); width *= 2) {
    const auto& last = least.back();
    std::vector<std::uint32_t> next(rank.size() - 2 * width + 1);
    for (std::size_t s = 0; s < next.size(); ++s) {
      next[s] = std::min(last[s], last[s + width]);
    }
    least.push_back(std::move(next));
  }
  std::vector<std::uint32_t> turn(model.items.size(), 0);
  for (std::size_t i = 0; i < model.items.size(); ++i) {
    turn[i] = static_cast<std::uint32_t>(rank.size());
    for (const Span& part : model.parts_of(model.items[i])) {
      const auto length = static_cast<std::uint32_t>(part.upper - part.lower);
      const auto level = static_cast<std::size_t>(31 - __builtin_clz(length));
      const auto& row = least[level];
      const auto upper = static_cast<std::size_t>(part.upper) - (std::size_t{1} << level);
      turn[i] = std::min({turn[i], row[static_cast<std::size_t>(part.lower)], row[upper]});
    }
  }
  const Item* first = model.items.data();
  return sorted_by(model, [&](const Item& item) {
    return std::tuple(turn[static_cast<std::size_t>(&item - first)], -item.size);
  });
}

namespace {

// False if two of them overlap.
bool place_fixed(const Model& model, Occupancy& occupancy) {
  for (std::size_t i = 0; i < model.items.size(); ++i) {
    const Item& item = model.items[i];
    if (item.fixed == kNotFixed) {
      continue;
    }
    for (const Extent& other : occupancy.neighbours(static_cast<ItemId>(i))) {
      if (other.lower < item.fixed + item.size && item.fixed < other.upper) {
        return false;
      }
    }
    occupancy.place(static_cast<ItemId>(i), item.fixed);
  }
  return true;
}

}  // namespace

bool fixed_overlap(const Model& model) {
  if (!model.has_fixed) {
    return false;
  }
  Occupancy occupancy(model);
  return !place_fixed(model, occupancy);
}

Found place_in_order(const Model& model, const Order& order, Fit fit, const Budget& budget) {
  Occupancy occupancy(model);
  if (model.has_fixed && !place_fixed(model, occupancy)) {
    return {.infeasible = true, .reason = kFixedConflict};
  }
  std::size_t placed = 0;
  for (const ItemId id : order) {
    const Item& item = model.items[static_cast<std::size_t>(id)];
    if (++placed % 128 == 0 && budget.expired()) {
      return {.reason = kOutOfTime};
    }
    if (item.fixed == kNotFixed) {
      occupancy.place(id, fit(item, occupancy.neighbours(id)));
    }
  }
  return {.offsets = occupancy.take_offsets()};
}

Found settle(const Model& model, const Offsets& offsets, const Budget& budget) {
  Order order(model.items.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](ItemId a, ItemId b) {
    return offsets[static_cast<std::size_t>(a)] < offsets[static_cast<std::size_t>(b)];
  });
  return place_in_order(model, order, lowest_gap, budget);
}

}  // namespace dsa
