// The objects, their bound and the strategies that deal items out to them one by one. Cold.
#include "planner/shared_objects.h"

#include <algorithm>
#include <limits>
#include <set>

#include "planner/strategies.h"

namespace dsa {

bool SharedObjects::suits(std::size_t index, ItemId id) const {
  const Object& object = objects_[index];
  const Item& item = model_.items[static_cast<std::size_t>(id)];
  if (std::max(object.alignment, item.alignment) % std::min(object.alignment, item.alignment) !=
      0) {
    return false;
  }
  const auto spans = model_.parts_of(item);
  return std::none_of(spans.begin(), spans.end(), [&](const Span& part) {
    const auto next = object.busy.lower_bound(part.upper);
    return next != object.busy.begin() && std::prev(next)->second > part.lower;
  });
}

Section SharedObjects::distance(std::size_t index, ItemId id) const {
  const auto& busy = objects_[index].busy;
  Section least = std::numeric_limits<Section>::max();
  for (const Span& part : model_.parts_of(model_.items[static_cast<std::size_t>(id)])) {
    const auto next = busy.lower_bound(part.upper);
    if (next != busy.end()) {
      least = std::min(least, next->first - part.upper);
    }
    if (next != busy.begin()) {
      least = std::min(least, part.lower - std::prev(next)->second);
    }
  }
  return least;
}

void SharedObjects::assign(ItemId id, std::size_t index) {
  if (index == kNew) {
    index = objects_.size();
    objects_.emplace_back();
  }
  Object& object = objects_[index];
  const Item& item = model_.items[static_cast<std::size_t>(id)];
  object.size = std::max(object.size, item.size);
  object.alignment = std::max(object.alignment, item.alignment);
  for (const Span& part : model_.parts_of(item)) {
    object.busy.emplace(part.lower, part.upper);
  }
  object_of_[static_cast<std::size_t>(id)] = index;
}

Found SharedObjects::plan(const Budget& budget) const {
  std::vector<Offset> bases;
  Offset top = 0;
  for (const Object& object : objects_) {
    bases.push_back(align_up(top, object.alignment));
    top = bases.back() + object.size;
  }
  Offsets offsets(model_.items.size());
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    offsets[i] = bases[object_of_[i]];
  }
  return model_.has_fixed ? settle(model_, offsets, budget) : Found{.offsets = std::move(offsets)};
}

std::vector<Bytes> positional_maxima(const Model& model, const Budget& budget) {
  std::vector<std::vector<ItemId>> births(model.load.size() + 1);
  std::vector<std::vector<ItemId>> deaths(model.load.size() + 1);
  for (std::size_t i = 0; i < model.items.size(); ++i) {
    for (const Span& part : model.parts_of(model.items[i])) {
      births[static_cast<std::size_t>(part.lower)].push_back(static_cast<ItemId>(i));
      deaths[static_cast<std::size_t>(part.upper)].push_back(static_cast<ItemId>(i));
    }
  }
  std::multiset<Bytes, std::greater<>> alive;
  std::vector<Bytes> maxima;
  for (std::size_t s = 0; s < model.load.size() && !budget.expired(); ++s) {
    for (const ItemId id : deaths[s]) {
      alive.erase(alive.find(model.items[static_cast<std::size_t>(id)].size));
    }
    for (const ItemId id : births[s]) {
      alive.insert(model.items[static_cast<std::size_t>(id)].size);
    }
    maxima.resize(std::max(maxima.size(), alive.size()), 0);
    std::size_t k = 0;
    for (const Bytes size : alive) {
      maxima[k] = std::max(maxima[k], size);
      ++k;
    }
  }
  return maxima;
}

namespace {

// Deals the items out in order, each to the object that `better` likes best among those that suit.
template <typename Better>
Found deal(const Model& model, const Order& order, const Budget& budget, Better better) {
  SharedObjects objects(model);
  for (const ItemId id : order) {
    if (budget.expired()) {
      return {.reason = kOutOfTime};
    }
    const Bytes size = model.items[static_cast<std::size_t>(id)].size;
    std::size_t best = SharedObjects::kNew;
    for (std::size_t o = 0; o < objects.count(); ++o) {
      if ((best == SharedObjects::kNew || better(objects.size(o), objects.size(best), size)) &&
          objects.suits(o, id)) {
        best = o;
      }
    }
    objects.assign(id, best);
  }
  return objects.plan(budget);
}

// The smallest that is large enough, else the largest.
bool tighter(Bytes a, Bytes b, Bytes need) {
  return (a >= need) != (b >= need) ? a >= need : (a >= need ? a < b : a > b);
}

// The one whose size is closest.
bool closer(Bytes a, Bytes b, Bytes need) {
  return std::abs(a - need) < std::abs(b - need);
}

}  // namespace

Found shared_by_size(const Model& model, const Budget& budget) {
  return deal(model, by_size(model), budget, tighter);
}

Found shared_by_breadth(const Model& model, const Budget& budget) {
  return deal(model, by_breadth(model), budget, tighter);
}

Found shared_lee(const Model& model, const Budget& budget) {
  return deal(model, by_birth(model), budget, closer);
}

Found shared_by_size_improved(const Model& model, const Budget& budget) {
  const std::vector<Bytes> maxima = positional_maxima(model, budget);
  const Order order = by_size(model);
  const auto size_of = [&](ItemId id) { return model.items[static_cast<std::size_t>(id)].size; };
  // Stages: of the size of a positional maximum, or between two of them.
  const auto stage_of = [&](ItemId id) {
    const Bytes size = size_of(id);
    const auto at = std::lower_bound(maxima.begin(), maxima.end(), size, std::greater<>());
    return 2 * (at - maxima.begin()) + (at != maxima.end() && *at == size ? 1 : 0);
  };
  constexpr std::size_t kPairs = 4096;  // between two looks at the clock
  std::size_t pairs = 0;
  SharedObjects objects(model);
  for (std::size_t first = 0; first < order.size();) {
    std::vector<ItemId> stage;
    for (; first < order.size() && (stage.empty() || stage_of(order[first]) == stage_of(stage[0]));
         ++first) {
      stage.push_back(order[first]);
    }
    while (!stage.empty()) {
      if (budget.expired()) {
        return {.reason = kOutOfTime};
      }
      // The pair with the shortest idle time; an item that suits no object starts one.
      std::size_t item = 0;
      std::size_t object = SharedObjects::kNew;
      Section least = std::numeric_limits<Section>::max();
      for (std::size_t i = 0; i < stage.size(); ++i) {
        for (std::size_t o = 0; o < objects.count(); ++o) {
          if (++pairs % kPairs == 0 && budget.expired()) {
            return {.reason = kOutOfTime};
          }
          if (!objects.suits(o, stage[i])) {
            continue;
          }
          if (const Section distance = objects.distance(o, stage[i]); distance < least) {
            least = distance;
            item = i;
            object = o;
          }
        }
      }
      objects.assign(stage[item], object);
      stage.erase(stage.begin() + static_cast<std::ptrdiff_t>(item));
    }
  }
  return objects.plan(budget);
}

}  // namespace dsa
