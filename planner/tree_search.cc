// The search loop with its own stack, so that deep problems need no deep call stack. Cold.
#include "planner/tree_search.h"

#include <algorithm>
#include <limits>

#include "planner/real_functions.h"

namespace dsa {

TreeSearch::TreeSearch(const Model& model, Bytes capacity, const SearchWeights& weights,
                       std::uint64_t seed)
    : packing_(model, capacity), weights_(weights), trouble_(model.load.size(), 1.0) {
  std::mt19937_64 random(seed);
  for (std::int32_t i = 0; i < packing_.entries(); ++i) {
    const PartialPacking::Entry& e = packing_.entry(i);
    const Bytes load =
        *std::max_element(model.load.begin() + e.lower, model.load.begin() + e.upper);
    // Not std::uniform_real_distribution, whose draws differ between libraries.
    const double draw = static_cast<double>(random() >> 11) * 0x1p-53;
    weight_.push_back(weights.lifetime * natural_log(e.upper - e.lower) +
                      weights.size * natural_log(static_cast<double>(e.size)) +
                      weights.load * static_cast<double>(load) / static_cast<double>(capacity) +
                      weights.noise * draw);
  }
}

TreeSearch::Result TreeSearch::run(std::uint64_t steps, const Budget& budget) {
  packing_.undo(0);
  frames_.clear();
  choices_.clear();
  ranges_.clear();
  for (Section s = 0; s < packing_.sections(); ++s) {
    if (packing_.height(s) != PartialPacking::kWall && !packing_.affords(s, 0)) {
      return Result::kImpossible;
    }
  }
  split({0, packing_.sections()}, kEnd);
  for (std::uint64_t step = 0; head_ != kEnd; ++step) {
    if (step >= steps || (step % 64 == 63 && budget.expired())) {
      return Result::kStopped;
    }
    if (!examine()) {
      blame();
      if (!backtrack()) {
        return packing_.linked() ? Result::kStopped : Result::kImpossible;
      }
    }
  }
  return Result::kSolved;
}

void TreeSearch::split(const Span& range, std::int32_t rest) {
  parts_.clear();
  Section lower = range.lower;
  for (Section s = range.lower + 1; s <= range.upper; ++s) {
    if (s == range.upper || !packing_.crossed(s)) {
      if (packing_.remaining(lower) > 0) {
        parts_.push_back({lower, s});
      }
      lower = s;
    }
  }
  // The shortest is solved first: if one of them is hopeless, that is soon known.
  std::sort(parts_.begin(), parts_.end(),
            [](const Span& a, const Span& b) { return a.upper - a.lower > b.upper - b.lower; });
  head_ = rest;
  for (const Span& part : parts_) {
    ranges_.push_back({part, head_, frames_.size()});
    head_ = static_cast<std::int32_t>(ranges_.size()) - 1;
  }
}

bool TreeSearch::examine() {
  const Range range = ranges_[static_cast<std::size_t>(head_)];
  Focus focus;
  for (;;) {
    focus = {};
    switch (look(range.span, focus)) {
      case Look::kDead:
        return false;
      case Look::kChanged:
        continue;
      case Look::kDone:
        head_ = range.next;
        if (head_ != kEnd &&
            !packing_.linked()) {  // what was chosen in the solved range is settled
          frames_.resize(ranges_[static_cast<std::size_t>(head_)].depth);
        }
        return true;
      case Look::kFocus:
        break;
    }
    if (!packing_.holds()) {
      return false;
    }
    choose(range.span, focus);
    return advance();
  }
}

TreeSearch::Look TreeSearch::look(const Span& range, Focus& focus) {
  bool any = false;
  for (Section lower = range.lower; lower < range.upper;) {
    const Offset height = packing_.height(lower);
    Section upper = lower + 1;
    while (upper < range.upper && packing_.height(upper) == height) {
      ++upper;
    }
    const Span segment{lower, upper};
    lower = upper;
    if (height == PartialPacking::kWall) {
      continue;
    }
    any = true;
    if ((segment.lower > range.lower && packing_.height(segment.lower - 1) < height) ||
        (segment.upper < range.upper && packing_.height(segment.upper) < height)) {
      continue;
    }
    const Look found = look_at_minimum(range, segment, focus);
    if (found != Look::kFocus) {
      return found;
    }
  }
  return any ? Look::kFocus : Look::kDone;
}

TreeSearch::Look TreeSearch::look_at_minimum(const Span& range, const Span& segment, Focus& focus) {
  const Offset height = packing_.height(segment.lower);
  const Offset left =
      segment.lower > range.lower ? packing_.height(segment.lower - 1) : PartialPacking::kWall;
  const Offset right =
      segment.upper < range.upper ? packing_.height(segment.upper) : PartialPacking::kWall;
  const Offset ceiling = packing_.ceiling(segment);
  if (ceiling == height) {
    return place_pinned(segment, height) ? Look::kChanged : Look::kDead;
  }
  cover_.assign(static_cast<std::size_t>(segment.upper - segment.lower) + 1, 0);
  // Whatever comes to lie beside a section given up reaches at least to here.
  Offset step = ceiling;
  for (auto i = packing_.first_born(segment.lower); i < packing_.first_born(segment.upper); ++i) {
    if (packing_.candidate(i, segment.upper, height)) {
      const PartialPacking::Entry& e = packing_.entry(i);
      ++cover_[static_cast<std::size_t>(e.lower - segment.lower)];
      --cover_[static_cast<std::size_t>(e.upper - segment.lower)];
      step = std::min(step, height + e.size);
    }
  }
  const Offset lift = std::min({left, right, step});
  if (lift == PartialPacking::kWall) {
    return Look::kDead;  // items are left that are forbidden here and can rest on nothing else
  }
  int count = 0;
  for (Section s = segment.lower; s < segment.upper; ++s) {
    count += cover_[static_cast<std::size_t>(s - segment.lower)];
    if (count == 0) {  // a run of sections that nothing can cover is given up
      Section end = s + 1;
      while (end < segment.upper && cover_[static_cast<std::size_t>(end - segment.lower)] == 0) {
        ++end;
      }
      const Offset beside =
          std::min(s == segment.lower ? left : step, end == segment.upper ? right : step);
      const Offset to = std::min(beside, packing_.ceiling({s, end}));
      return packing_.raise({s, end}, to) ? Look::kChanged : Look::kDead;
    }
    const int possibilities = count + (packing_.affords(s, lift) ? 1 : 0);
    // What is forced comes first; else few possibilities, where there was trouble before.
    const double cost =
        possibilities == 1 ? 1 : 1 + possibilities / trouble_[static_cast<std::size_t>(s)];
    if (focus.section < 0 || cost < focus.cost) {
      focus = {cost, s, segment, height};
    }
  }
  return Look::kFocus;
}

// The skyline has reached a pinned entry. All of it lies in the segment: beside a local minimum the
// skyline is higher, and would have passed it.
bool TreeSearch::place_pinned(const Span& segment, Offset height) {
  for (Section s = segment.lower; s < segment.upper; ++s) {
    if (const std::int32_t i = packing_.pinned_at(s, height); i >= 0) {
      return packing_.place(i, height);
    }
  }
  return false;
}

void TreeSearch::choose(const Span& range, const Focus& focus) {
  const Span& segment = focus.segment;
  const std::size_t first = frames_.empty() ? 0 : frames_.back().last;
  choices_.resize(first);
  const auto neighbour = [&](Section s) {
    return s < range.lower || s >= range.upper ? PartialPacking::kWall : packing_.height(s);
  };
  for (auto i = packing_.first_born(segment.lower); i < packing_.first_born(focus.section + 1);
       ++i) {
    const PartialPacking::Entry& e = packing_.entry(i);
    if (e.upper <= focus.section || !packing_.candidate(i, segment.upper, focus.height)) {
      continue;
    }
    double score = weight_[static_cast<std::size_t>(i)];
    const Offset top = align_up(focus.height, e.alignment) + e.size;
    if (e.lower == segment.lower) {
      score += weights_.edge + (top == neighbour(e.lower - 1) ? weights_.flush : 0);
    }
    if (e.upper == segment.upper) {
      score += weights_.edge + (top == neighbour(e.upper) ? weights_.flush : 0);
    }
    choices_.push_back({score, i});
  }
  std::sort(choices_.begin() + static_cast<std::ptrdiff_t>(first), choices_.end(),
            [](const Choice& a, const Choice& b) {
              return a.score != b.score ? a.score > b.score : a.entry < b.entry;
            });
  frames_.push_back({head_, ranges_.size(), packing_.mark(), first, choices_.size(), first,
                     focus.height, segment});
}

bool TreeSearch::advance() {
  Frame& frame = frames_.back();
  const std::int32_t i = choices_[frame.next++].entry;
  const Range range = ranges_[static_cast<std::size_t>(frame.head)];
  if (!packing_.place(i, align_up(frame.height, packing_.entry(i).alignment)) ||
      !packing_.holds()) {
    return false;
  }
  split(range.span, range.next);
  return true;
}

bool TreeSearch::backtrack() {
  while (!frames_.empty()) {
    Frame& frame = frames_.back();
    packing_.undo(frame.mark);
    head_ = frame.head;
    ranges_.resize(frame.ranges);
    packing_.forbid(choices_[frame.next - 1].entry, frame.height);
    frame.mark = packing_.mark();
    if (frame.next == frame.last) {
      // All that could cover the section is forbidden: the packings left are those that waste it.
      frames_.pop_back();
      return true;
    }
    if (advance()) {
      return true;
    }
    blame();
  }
  return false;
}

void TreeSearch::blame() {
  // Small beside the differences of weights: it takes a few failures to change an order.
  constexpr double kStep = 0.01;
  trouble_[static_cast<std::size_t>(packing_.blamed())] += kStep;
  packing_.for_each_unplaced(
      packing_.blamed(), [this](std::int32_t i) { weight_[static_cast<std::size_t>(i)] += kStep; });
}

}  // namespace dsa
