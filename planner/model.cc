// Compresses a problem's time to sections and sums the load of each. Cold.
#include "planner/model.h"

#include <algorithm>
#include <numeric>
#include <queue>

namespace dsa {
namespace {

struct Event {
  Time time;
  bool birth;
  std::uint32_t part;
  // Deaths come first: lifetimes are half-open.
  friend bool operator<(const Event& a, const Event& b) {
    return a.time != b.time ? a.time < b.time : a.birth < b.birth;
  }
};

// Calls visit(lower, upper) for each part of the lifetime in which the buffer is alive.
template <typename Visit>
void for_each_part(const Buffer& buffer, Visit visit) {
  Time from = buffer.lower;
  for (const Interval& gap : buffer.gaps) {
    if (from < gap.lower) {
      visit(from, gap.lower);
    }
    from = gap.upper;
  }
  if (from < buffer.upper) {
    visit(from, buffer.upper);
  }
}

}  // namespace

Model::Model(const Problem& problem) {
  std::vector<Event> events;
  events.reserve(2 * problem.buffers.size());
  resting.assign(problem.buffers.size(), 0);
  for (std::size_t i = 0; i < problem.buffers.size(); ++i) {
    const Buffer& buffer = problem.buffers[i];
    resting[i] = buffer.fixed.value_or(0);
    const auto first = static_cast<std::uint32_t>(parts.size());
    if (buffer.size > 0) {
      for_each_part(buffer, [&](Time lower, Time upper) {
        const auto part = static_cast<std::uint32_t>(parts.size());
        parts.emplace_back();
        events.push_back({lower, true, part});
        events.push_back({upper, false, part});
      });
    }
    if (parts.size() == first) {  // never alive: needs no memory, but its offset must be legal
      resting_height = std::max(resting_height, resting[i] + buffer.size);
      continue;
    }
    items.push_back({.size = buffer.size,
                     .alignment = buffer.alignment,
                     .fixed = buffer.fixed.value_or(kNotFixed),
                     .first_part = first,
                     .last_part = static_cast<std::uint32_t>(parts.size())});
    source.push_back(static_cast<std::uint32_t>(i));
  }
  std::sort(events.begin(), events.end());
  Section section = -1;
  bool after_birth = false;
  for (const Event& event : events) {
    if (event.birth) {
      section += after_birth ? 0 : 1;
      parts[event.part].lower = section;
    } else {
      parts[event.part].upper = section + 1;
    }
    after_birth = event.birth;
  }
  load.assign(static_cast<std::size_t>(section) + 1, 0);
  measure();
  if (unit > 1) {
    raise_bound_by_padding();
  }
}

void Model::measure() {
  bound = resting_height;
  unit = 0;
  std::vector<Bytes> change(load.size() + 1, 0);
  for (Item& item : items) {
    unit = std::gcd(unit, item.alignment);
    has_gaps |= item.gapped();
    has_alignment |= item.alignment > 1;
    if (item.fixed != kNotFixed) {
      has_fixed = true;
      bound = std::max(bound, item.fixed + item.size);
    }
    item.lower = parts[item.first_part].lower;
    item.upper = parts[item.last_part - 1].upper;
    for (const Span& part : parts_of(item)) {
      change[static_cast<std::size_t>(part.lower)] += item.size;
      change[static_cast<std::size_t>(part.upper)] -= item.size;
    }
  }
  Bytes sum = 0;
  for (std::size_t s = 0; s < load.size(); ++s) {
    sum += change[s];
    load[s] = sum;
    bound = std::max(bound, sum);
  }
  unit = std::max<Bytes>(unit, 1);
}

// Where all offsets are multiples of a unit, every item but the topmost of a section takes whole
// units. At best that is the one whose last unit is the least used.
void Model::raise_bound_by_padding() {
  const auto padding = [this](const Item& item) { return align_up(item.size, unit) - item.size; };
  struct Padded {
    Bytes padding;
    Section upper;
    bool operator<(const Padded& other) const { return padding < other.padding; }
  };
  std::vector<Bytes> change(load.size() + 1, 0);
  std::vector<std::vector<Padded>> born(load.size());
  for (const Item& item : items) {
    for (const Span& part : parts_of(item)) {
      const auto lower = static_cast<std::size_t>(part.lower);
      change[lower] += padding(item);
      change[static_cast<std::size_t>(part.upper)] -= padding(item);
      born[lower].push_back({padding(item), part.upper});
    }
  }
  std::priority_queue<Padded> alive;
  Bytes sum = 0;
  for (std::size_t s = 0; s < load.size(); ++s) {
    for (const Padded& padded : born[s]) {
      alive.push(padded);
    }
    while (!alive.empty() && alive.top().upper <= static_cast<Section>(s)) {
      alive.pop();
    }
    sum += change[s];
    bound = std::max(bound, load[s] + sum - (alive.empty() ? 0 : alive.top().padding));
  }
}

Model Model::part(const Span& window, std::span<const ItemId> chosen,
                  const std::vector<Offset>& offsets) const {
  Model result;
  result.load.assign(static_cast<std::size_t>(window.upper - window.lower), 0);
  for (const ItemId id : chosen) {
    Item item = items[static_cast<std::size_t>(id)];
    const auto first = static_cast<std::uint32_t>(result.parts.size());
    for (const Span& span : parts_of(item)) {
      const Section lower = std::max(span.lower, window.lower);
      const Section upper = std::min(span.upper, window.upper);
      if (lower < upper) {
        result.parts.push_back({lower - window.lower, upper - window.lower});
      }
    }
    if (item.lower < window.lower || item.upper > window.upper) {
      item.fixed = offsets[static_cast<std::size_t>(id)];
    }
    item.first_part = first;
    item.last_part = static_cast<std::uint32_t>(result.parts.size());
    result.items.push_back(item);
    result.source.push_back(static_cast<std::uint32_t>(id));
  }
  result.measure();
  return result;
}

Plan Model::plan_of(const std::vector<Offset>& offsets) const {
  Plan plan{resting, resting_height};
  for (std::size_t i = 0; i < items.size(); ++i) {
    plan.offsets[source[i]] = offsets[i];
    plan.height = std::max(plan.height, offsets[i] + items[i].size);
  }
  return plan;
}

}  // namespace dsa
