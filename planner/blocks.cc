// The forest and its lists. Cold.
#include "planner/blocks.h"

namespace dsa {

Blocks::Blocks(const Model& model) {
  blocks_.reserve(3 * model.items.size());  // what can come of them, and second thoughts
  for (const Side side : {kBegin, kEnd}) {
    heads_[side].assign(model.load.size() + 1, kNone);
    counts_[side].assign(model.load.size() + 1, 0);
  }
  for (const Item& item : model.items) {
    blocks_.push_back({.size = item.size, .span = {item.lower, item.upper}});
    enter(end() - 1);
  }
}

Blocks::Index Blocks::join(Index a, Index b, float score) {
  const Block& x = (*this)[a];
  const Block& y = (*this)[b];
  Block block{.size = x.size, .span = x.span, .first = a, .second = b, .score = score};
  if (twins(a, b)) {
    block.size += y.size;
  } else {
    block.span.upper = y.span.upper;
  }
  leave(a);
  leave(b);
  blocks_.push_back(block);
  enter(end() - 1);
  return end() - 1;
}

void Blocks::part(Index index) {
  leave(index);
  enter((*this)[index].first);
  enter((*this)[index].second);
}

void Blocks::rejoin(Index index) {
  leave((*this)[index].first);
  leave((*this)[index].second);
  enter(index);
}

void Blocks::drop(Index from) {
  blocks_.resize(static_cast<std::size_t>(from));
}

void Blocks::enter(Index index) {
  Block& block = at(index);
  block.root = true;
  ++roots_;
  for (const Side side : {kBegin, kEnd}) {
    const auto section =
        static_cast<std::size_t>(side == kBegin ? block.span.lower : block.span.upper);
    Index& head = heads_[side][section];
    block.previous[side] = kNone;
    block.next[side] = head;
    if (head != kNone) {
      at(head).previous[side] = index;
    }
    head = index;
    ++counts_[side][section];
  }
}

void Blocks::leave(Index index) {
  Block& block = at(index);
  block.root = false;
  --roots_;
  for (const Side side : {kBegin, kEnd}) {
    const auto section =
        static_cast<std::size_t>(side == kBegin ? block.span.lower : block.span.upper);
    const Index next = block.next[side];
    const Index previous = block.previous[side];
    if (next != kNone) {
      at(next).previous[side] = previous;
    }
    if (previous != kNone) {
      at(previous).next[side] = next;
    } else {
      heads_[side][section] = next;
    }
    --counts_[side][section];
  }
}

void Blocks::place(Index index, Offset offset, Offsets& offsets) const {
  std::vector<std::pair<Index, Offset>> left{{index, offset}};
  while (!left.empty()) {
    const auto [at, bottom] = left.back();
    left.pop_back();
    const Block& block = (*this)[at];
    if (block.first == kNone) {
      offsets[static_cast<std::size_t>(at)] = bottom;
      continue;
    }
    left.emplace_back(block.first, bottom);
    const bool stacked = twins(block.first, block.second);
    left.emplace_back(block.second, stacked ? bottom + (*this)[block.first].size : bottom);
  }
}

}  // namespace dsa
