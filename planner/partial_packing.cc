// Places, raises, checks and takes back. Cold.
#include "planner/partial_packing.h"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

namespace dsa {

PartialPacking::PartialPacking(const Model& model, Bytes capacity)
    : capacity_(capacity),
      items_(model.items.size()),
      cells_(model.load.size()),
      crossing_(model.load.size() + 1),
      offsets_(model.parts.size(), -1),
      floors_(model.parts.size(), 0),
      forbidden_(model.parts.size(), -1),
      is_touched_(model.load.size()),
      linked_(model.has_gaps || model.has_fixed),
      pins_({}, 0) {
  index(model);
  if (linked_) {
    tie_parts(model);
  }
  for (std::size_t s = 0; s < cells_.size(); ++s) {
    cells_[s].remaining = model.load[s];
    cells_[s].height = cells_[s].top = model.load[s] == 0 ? kWall : 0;
  }
}

void PartialPacking::index(const Model& model) {
  for (std::size_t i = 0; i < model.items.size(); ++i) {
    const Item& item = model.items[i];
    for (const Span& part : model.parts_of(item)) {
      entries_.push_back(
          {part.lower, part.upper, item.size, item.alignment, static_cast<ItemId>(i), 0, 0});
    }
  }
  // Those that other places bind have no twin, and go after those that may have.
  const auto bound = [&model](const Entry& e) {
    const Item& item = model.items[static_cast<std::size_t>(e.item)];
    return item.gapped() || item.fixed != kNotFixed ? e.item + 1 : 0;
  };
  const auto key = [bound](const Entry& e) {
    return std::tuple(e.lower, e.upper, e.size, e.alignment, bound(e));
  };
  std::stable_sort(entries_.begin(), entries_.end(),
                   [key](const Entry& a, const Entry& b) { return key(a) < key(b); });
  first_born_.assign(cells_.size() + 1, 0);
  first_alive_.assign(cells_.size() + 1, 0);
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    Entry& e = entries_[i];
    e.twin = i > 0 && key(entries_[i - 1]) == key(e) ? entries_[i - 1].twin
                                                     : static_cast<std::int32_t>(i);
    e.next = static_cast<std::int32_t>(i);
    ++first_born_[static_cast<std::size_t>(e.lower) + 1];
    for (Section s = e.lower; s < e.upper; ++s) {
      ++first_alive_[static_cast<std::size_t>(s) + 1];
      crossing_[static_cast<std::size_t>(s)] += s > e.lower ? 1 : 0;
    }
  }
  std::partial_sum(first_born_.begin(), first_born_.end(), first_born_.begin());
  std::partial_sum(first_alive_.begin(), first_alive_.end(), first_alive_.begin());
  alive_.resize(first_alive_.back());
  std::vector<std::uint32_t> next(first_alive_);
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    for (Section s = entries_[i].lower; s < entries_[i].upper; ++s) {
      alive_[next[static_cast<std::size_t>(s)]++] = static_cast<std::int32_t>(i);
    }
  }
}

void PartialPacking::tie_parts(const Model& model) {
  std::vector<std::int32_t> last(model.items.size(), -1);
  std::vector<Pins::Part> parts;
  for (std::int32_t i = 0; i < entries(); ++i) {
    Entry& e = entries_[static_cast<std::size_t>(i)];
    parts.push_back({{e.lower, e.upper}, e.size});
    if (std::int32_t& before = last[static_cast<std::size_t>(e.item)]; before >= 0) {
      e.next = entry(before).next;
      entries_[static_cast<std::size_t>(before)].next = i;
      before = i;
    } else {
      before = i;
    }
  }
  pins_ = Pins(std::move(parts), cells_.size());
  for (std::int32_t i = 0; i < entries(); ++i) {
    const Offset fixed = model.items[static_cast<std::size_t>(entry(i).item)].fixed;
    if (fixed != kNotFixed) {
      pins_.add(i, fixed);  // no two overlap: the planners refuse such problems before
      floors_[static_cast<std::size_t>(i)] = fixed;
    }
  }
}

// The item's other parts must lie at this offset. False if one cannot any more.
bool PartialPacking::pin_others(std::int32_t i, Offset offset) {
  if (pins_.pin(i) != Pins::kNone) {
    return true;  // they were pinned with it, or are placed
  }
  for (std::int32_t other = entry(i).next; other != i; other = entry(other).next) {
    const Entry& e = entry(other);
    for (Section s = e.lower; s < e.upper; ++s) {
      if (height(s) > offset) {
        return fail(s);
      }
    }
    if (!pins_.add(other, offset)) {
      return fail(e.lower);
    }
    trail_.push_back({.kind = Kind::kPinned, .entry = other});
    Offset& floor = floors_[static_cast<std::size_t>(other)];
    if (floor < offset) {
      trail_.push_back({.kind = Kind::kFloor, .entry = other, .old = floor});
      floor = offset;
    }
    for (Section s = e.lower; s < e.upper; ++s) {
      touch(s);
    }
  }
  return true;
}

void PartialPacking::save(const Span& span) {
  saved_.insert(saved_.end(), cells_.begin() + span.lower, cells_.begin() + span.upper);
}

void PartialPacking::touch(Section s) {
  if (is_touched_[static_cast<std::size_t>(s)] == 0) {
    is_touched_[static_cast<std::size_t>(s)] = 1;
    touched_.push_back(s);
  }
}

void PartialPacking::lift_floors(const Span& span, Offset height) {
  const auto lift = [&](std::int32_t i) {
    const Entry& e = entry(i);
    Offset& floor = floors_[static_cast<std::size_t>(i)];
    if (offsets_[static_cast<std::size_t>(i)] >= 0 || floor >= height) {
      return;
    }
    trail_.push_back({.kind = Kind::kFloor, .entry = i, .old = floor});
    floor = align_up(height, e.alignment);
    for (Section s = e.lower; s < e.upper; ++s) {
      if (!affords(s, floor)) {  // else all that is left can follow it
        touch(s);
      }
    }
  };
  for_each_unplaced(span.lower, lift);
  for (std::int32_t i = first_born(span.lower + 1); i < first_born(span.upper); ++i) {
    lift(i);
  }
}

bool PartialPacking::place(std::int32_t i, Offset offset) {
  const Entry& e = entry(i);
  const Span span{e.lower, e.upper};
  const Offset top = offset + e.size;
  save(span);
  trail_.push_back({.kind = Kind::kPlaced, .entry = i, .span = span});
  offsets_[static_cast<std::size_t>(i)] = offset;
  if (pins_.pin(i) != Pins::kNone) {
    pins_.reach(i);
    trail_.push_back({.kind = Kind::kReached, .entry = i});
  }
  bool good = top <= ceiling(span) || fail(span.lower);
  for (Section s = span.lower; s < span.upper; ++s) {
    Cell& cell = cells_[static_cast<std::size_t>(s)];
    const Bytes remaining = cell.remaining - e.size;
    good = (remaining == 0 ? top <= capacity_ : top <= capacity_ - remaining) ? good : fail(s);
    cell = remaining == 0 ? Cell{kWall, kWall, 0, i} : Cell{top, top, remaining, i};
    crossing_[static_cast<std::size_t>(s)] -= s > span.lower ? 1 : 0;
  }
  if (good) {
    lift_floors(span, top);
  }
  return good && pin_others(i, offset);
}

bool PartialPacking::raise(const Span& span, Offset to) {
  save(span);
  trail_.push_back({.kind = Kind::kCells, .span = span});
  if (to > ceiling(span)) {
    return fail(span.lower);
  }
  for (Section s = span.lower; s < span.upper; ++s) {
    if (!affords(s, to)) {
      return fail(s);
    }
    cells_[static_cast<std::size_t>(s)].height = to;
  }
  lift_floors(span, to);
  return true;
}

void PartialPacking::forbid(std::int32_t i, Offset height) {
  const std::int32_t twin = entry(i).twin;
  Offset& forbidden = forbidden_[static_cast<std::size_t>(twin)];
  trail_.push_back({.kind = Kind::kForbidden, .entry = twin, .old = forbidden});
  forbidden = height;
}

void PartialPacking::undo(std::size_t mark) {
  for (const Section s : touched_) {
    is_touched_[static_cast<std::size_t>(s)] = 0;
  }
  touched_.clear();
  for (; trail_.size() > mark; trail_.pop_back()) {
    const Change& change = trail_.back();
    const auto index = static_cast<std::size_t>(change.entry);
    if (change.kind == Kind::kFloor) {
      floors_[index] = change.old;
      continue;
    }
    if (change.kind == Kind::kForbidden) {
      forbidden_[index] = change.old;
      continue;
    }
    if (change.kind == Kind::kPinned) {
      pins_.undo_add(change.entry);
      continue;
    }
    if (change.kind == Kind::kReached) {
      pins_.undo_reach(change.entry);
      continue;
    }
    const auto count = change.span.upper - change.span.lower;
    std::copy(saved_.end() - count, saved_.end(), cells_.begin() + change.span.lower);
    saved_.resize(saved_.size() - static_cast<std::size_t>(count));
    if (change.kind == Kind::kPlaced) {
      offsets_[index] = -1;
      for (Section s = change.span.lower + 1; s < change.span.upper; ++s) {
        ++crossing_[static_cast<std::size_t>(s)];
      }
    }
  }
}

bool PartialPacking::holds() {
  bool good = true;
  for (const Section s : touched_) {
    is_touched_[static_cast<std::size_t>(s)] = 0;
    if (!good || remaining(s) == 0) {
      continue;
    }
    starts_.clear();
    for_each_unplaced(s, [&](std::int32_t i) {
      starts_.emplace_back(floors_[static_cast<std::size_t>(i)], entry(i).size);
    });
    // One after the other as soon as each can: the earliest end that any order has.
    std::sort(starts_.begin(), starts_.end());
    Offset end = 0;
    for (const auto& [floor, size] : starts_) {
      end = std::max(end, floor) + size;
    }
    good = end <= capacity_ || fail(s);
  }
  touched_.clear();
  return good;
}

bool PartialPacking::candidate(std::int32_t i, Section upper, Offset height) const {
  const Entry& e = entry(i);
  if (offsets_[static_cast<std::size_t>(i)] >= 0 || e.upper > upper ||
      forbidden_[static_cast<std::size_t>(e.twin)] == height) {
    return false;
  }
  if (linked_ && (pins_.pin(i) != Pins::kNone ||
                  align_up(height, e.alignment) + e.size > ceiling({e.lower, e.upper}))) {
    return false;
  }
  if (e.twin != i && offsets_[static_cast<std::size_t>(i) - 1] < 0) {
    return false;  // twins go in order
  }
  const Offset offset = align_up(height, e.alignment);
  const Cell* const cells = cells_.data();
  // Resting on nothing but waste, it could lie lower: another branch has that packing.
  if (std::none_of(cells + e.lower, cells + e.upper,
                   [&](const Cell& cell) { return align_up(cell.top, e.alignment) == offset; })) {
    return false;
  }
  // Of two that live equally long and lie on each other, the one with the lower index lies below:
  // exchanging them changes nothing for the others.
  const std::int32_t below = cells[e.lower].below;
  return below < i || e.next != i || entry(below).next != below ||
         pins_.pin(below) != Pins::kNone || entry(below).lower != e.lower ||
         entry(below).upper != e.upper || e.alignment != 1 || entry(below).alignment != 1 ||
         cells[e.lower].top != height;
}

std::vector<Offset> PartialPacking::offsets() const {
  std::vector<Offset> result(items_);
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    result[static_cast<std::size_t>(entries_[i].item)] = offsets_[i];
  }
  return result;
}

}  // namespace dsa
