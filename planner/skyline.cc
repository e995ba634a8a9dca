// Segments of the skyline as a linked list with a heap of the lowest; the skyline strategies. Cold.
#include "planner/skyline.h"

#include <bit>
#include <limits>
#include <numeric>

namespace dsa {

Skyline::Skyline(const Model& model)
    : model_(model), tree_(model), demand_(model), obstacles_(model) {}

std::size_t Skyline::start(const std::vector<Rank>& ranks) {
  tree_.reset(ranks);
  offsets_.assign(model_.items.size(), -1);
  std::size_t free_items = model_.items.size();
  obstacles_.reset();
  for (std::size_t i = 0; obstacles_.any() && i < model_.items.size(); ++i) {
    if (model_.items[i].fixed != kNotFixed) {
      offsets_[i] = model_.items[i].fixed;
      tree_.remove(model_.items[i]);
      --free_items;
    }
  }
  segments_.clear();
  free_.clear();
  heap_.clear();
  if (model_.has_gaps) {
    begins_.assign(model_.load.size() / 64 + 1, 0);
    at_begin_.assign(model_.load.size() + 1, kNone);
  }
  announce(add({.span = {0, static_cast<Section>(model_.load.size())}}));
  return free_items;
}

std::optional<Offsets> Skyline::pass(const std::vector<Rank>& ranks, const Budget& budget) {
  for (std::size_t left = start(ranks); left > 0;) {
    const std::uint32_t index = minimum();
    const Segment segment = segments_[index];
    if (pass_obstacle(index)) {
      continue;
    }
    const ItemId id = tree_.best_inside(segment.span, [&](ItemId item) {
      return fits(model_.items[static_cast<std::size_t>(item)], segment.height);
    });
    if (id < 0) {
      raise(index);
      continue;
    }
    put(index, id);
    if (--left % 1024 == 0 && budget.expired()) {
      return std::nullopt;
    }
  }
  return offsets_;
}

std::uint32_t Skyline::add(const Segment& segment) {
  std::uint32_t index = static_cast<std::uint32_t>(segments_.size());
  if (free_.empty()) {
    segments_.push_back(segment);
  } else {
    index = free_.back();
    free_.pop_back();
    segments_[index] = segment;
  }
  if (segment.previous != kNone) {
    segments_[segment.previous].next = index;
  }
  if (segment.next != kNone) {
    segments_[segment.next].previous = index;
  }
  if (model_.has_gaps) {
    const auto begin = static_cast<std::size_t>(segment.span.lower);
    begins_[begin / 64] |= std::uint64_t{1} << (begin % 64);
    at_begin_[begin] = index;
  }
  return index;
}

void Skyline::announce(std::uint32_t index) {
  here_ = index;
  if (!model_.has_gaps) {
    return;
  }
  const Segment& segment = segments_[index];
  heap_.push_back({segment.height, segment.span.lower, segment.span.upper, index});
  std::push_heap(heap_.begin(), heap_.end());
}

// Downhill from where the last change was.
std::uint32_t Skyline::minimum() {
  if (model_.has_gaps) {
    return lowest();
  }
  for (;;) {
    const Segment& segment = segments_[here_];
    if (segment.previous != kNone && segments_[segment.previous].height < segment.height) {
      here_ = segment.previous;
    } else if (segment.next != kNone && segments_[segment.next].height < segment.height) {
      here_ = segment.next;
    } else {
      return here_;
    }
  }
}

std::uint32_t Skyline::lowest() {
  for (;;) {
    const Low low = heap_.front();
    const Segment& segment = segments_[low.index];
    if (segment.height == low.height && segment.span.lower == low.lower &&
        segment.span.upper == low.upper) {
      return low.index;
    }
    std::pop_heap(heap_.begin(), heap_.end());
    heap_.pop_back();
  }
}

std::uint32_t Skyline::segment_at(Section section) const {
  auto word = static_cast<std::size_t>(section) / 64;
  std::uint64_t bits = begins_[word] & (~std::uint64_t{0} >> (63 - section % 64));
  while (bits == 0) {
    bits = begins_[--word];
  }
  return at_begin_[word * 64 + 63 - static_cast<std::size_t>(std::countl_zero(bits))];
}

bool Skyline::pass_obstacle(std::uint32_t index) {
  const Segment& segment = segments_[index];
  const Obstacles::Obstacle* const obstacle =
      obstacles_.any() ? obstacles_.lowest(segment.span) : nullptr;
  if (obstacle == nullptr || obstacle->bottom > segment.height) {
    return false;
  }
  // Its columns are as high as its bottom, none of them higher: all lie in this segment.
  obstacles_.pass(*obstacle);
  put_part(index, obstacle->span, obstacle->top);
  return true;
}

bool Skyline::fits(const Item& item, Offset height) const {
  if (obstacles_.any()) {
    const Offset top = align_up(height, item.alignment) + item.size;
    for (const Span& part : model_.parts_of(item)) {
      if (top > obstacles_.ceiling(part)) {
        return false;
      }
    }
  }
  if (!item.gapped()) {
    return true;
  }
  for (const Span& part : model_.parts_of(item)) {
    const Segment& segment = segments_[segment_at(part.lower)];
    if (segment.height > height || segment.span.upper < part.upper) {
      return false;
    }
  }
  return true;
}

void Skyline::put(std::uint32_t index, ItemId id) {
  const Item& item = model_.items[static_cast<std::size_t>(id)];
  const Offset offset = align_up(segments_[index].height, item.alignment);
  offsets_[static_cast<std::size_t>(id)] = offset;
  tree_.remove(item);
  for (const Span& part : model_.parts_of(item)) {
    put_part(item.gapped() ? segment_at(part.lower) : index, part, offset + item.size);
  }
}

void Skyline::put_part(std::uint32_t index, const Span& part, Offset height) {
  const Segment old = segments_[index];
  if (old.span.upper > part.upper) {  // what is left over on the right
    announce(add({{part.upper, old.span.upper}, old.height, index, old.next}));
    segments_[index].span.upper = part.upper;
  }
  std::uint32_t mine = index;
  if (old.span.lower < part.lower) {  // and on the left
    mine = add({part, old.height, index, segments_[index].next});
    segments_[index].span.upper = part.lower;
    announce(index);
  }
  set_height(mine, height);
}

Offset Skyline::raise(std::uint32_t index) {
  const Segment& segment = segments_[index];
  Offset to = obstacles_.ceiling(segment.span);
  if (segment.previous != kNone) {
    to = std::min(to, segments_[segment.previous].height);
  }
  if (segment.next != kNone) {
    to = std::min(to, segments_[segment.next].height);
  }
  set_height(index, to);
  return to;
}

void Skyline::set_height(std::uint32_t index, Offset height) {
  segments_[index].height = height;
  if (const auto next = segments_[index].next; next != kNone && segments_[next].height == height) {
    absorb_next(index);
  }
  if (const auto previous = segments_[index].previous;
      previous != kNone && segments_[previous].height == height) {
    absorb_next(previous);
    index = previous;
  }
  announce(index);
}

void Skyline::absorb_next(std::uint32_t index) {
  const std::uint32_t gone = segments_[index].next;
  if (model_.has_gaps) {
    const auto begin = static_cast<std::size_t>(segments_[gone].span.lower);
    begins_[begin / 64] &= ~(std::uint64_t{1} << (begin % 64));
  }
  segments_[index].span.upper = segments_[gone].span.upper;
  segments_[index].next = segments_[gone].next;
  if (segments_[gone].next != kNone) {
    segments_[segments_[gone].next].previous = index;
  }
  segments_[gone].height = -1;
  free_.push_back(gone);
}

std::vector<Rank> ranks_of(const Order& order) {
  std::vector<Rank> ranks(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    ranks[static_cast<std::size_t>(order[i])] = static_cast<Rank>(i);
  }
  return ranks;
}

namespace {

Found best_of_passes(const Model& model, const Budget& budget,
                     std::initializer_list<Order (*)(const Model&)> orders) {
  if (fixed_overlap(model)) {
    return {.infeasible = true, .reason = kFixedConflict};
  }
  Skyline sky(model);
  Found best;
  Bytes best_height = std::numeric_limits<Bytes>::max();
  for (const auto order : orders) {
    std::optional<Offsets> offsets = sky.pass(ranks_of(order(model)), budget);
    if (!offsets) {
      break;
    }
    if (const Bytes height = height_of(model, *offsets); height < best_height) {
      best_height = height;
      best.offsets = std::move(offsets);
    }
    if (best_height <= budget.target() || budget.expired()) {
      break;
    }
  }
  best.reason = best.offsets ? "" : kOutOfTime;
  return best;
}

}  // namespace

Found skyline(const Model& model, const Budget& budget) {
  return best_of_passes(model, budget, {by_area, by_lifetime, by_size, by_breadth});
}

Found strip_packing_best_fit(const Model& model, const Budget& budget) {
  return best_of_passes(model, budget, {by_lifetime});
}

Found long_lived_first(const Model& model, const Budget& budget) {
  const auto offsets =
      Skyline(model).pass(ranks_of(by_long_life(model)), budget, true, [](const Demand::Most&) {});
  return {.offsets = offsets, .reason = offsets ? "" : kOutOfTime};
}

}  // namespace dsa
