// Neighbour queries on a segment tree of sections and a bit set of births; gap search. Cold.
#include "planner/occupancy.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>

namespace dsa {

Occupancy::Occupancy(const Model& model)
    : model_(model),
      tree_(model),
      alive_(tree_.nodes()),
      item_by_birth_(model.parts.size()),
      rank_(model.parts.size()),
      first_rank_(model.load.size() + 1),
      born_(model.parts.size() / 64 + 1),
      offsets_(model.items.size(), 0) {
  // Counting sort of the parts by the section of their birth.
  for (const Span& part : model.parts) {
    ++first_rank_[static_cast<std::size_t>(part.lower) + 1];
  }
  std::partial_sum(first_rank_.begin(), first_rank_.end(), first_rank_.begin());
  std::vector<std::uint32_t> next(first_rank_);
  for (std::size_t i = 0; i < model.items.size(); ++i) {
    for (std::uint32_t p = model.items[i].first_part; p < model.items[i].last_part; ++p) {
      rank_[p] = next[static_cast<std::size_t>(model.parts[p].lower)]++;
      item_by_birth_[rank_[p]] = static_cast<ItemId>(i);
    }
  }
}

void Occupancy::place(ItemId id, Offset offset) {
  const Item& item = model_.items[static_cast<std::size_t>(id)];
  offsets_[static_cast<std::size_t>(id)] = offset;
  for (std::uint32_t p = item.first_part; p < item.last_part; ++p) {
    born_[rank_[p] / 64] |= std::uint64_t{1} << (rank_[p] % 64);
    tree_.for_each_cover(model_.parts[p], [&](std::size_t node) { alive_[node].push_back(id); });
  }
}

void Occupancy::collect(const Span& part) {
  const auto add = [&](ItemId id) {
    const Offset offset = offsets_[static_cast<std::size_t>(id)];
    found_.push_back({offset, offset + model_.items[static_cast<std::size_t>(id)].size});
  };
  tree_.for_each_above(part.lower, [&](std::size_t node) {
    for (const ItemId id : alive_[node]) {
      add(id);
    }
  });
  const std::uint32_t from = first_rank_[static_cast<std::size_t>(part.lower) + 1];
  const std::uint32_t to = first_rank_[static_cast<std::size_t>(part.upper)];
  if (from >= to) {
    return;
  }
  for (std::uint32_t word = from / 64; word <= (to - 1) / 64; ++word) {
    std::uint64_t bits = born_[word];
    if (word == from / 64) {
      bits &= ~std::uint64_t{0} << (from % 64);
    }
    for (; bits != 0; bits &= bits - 1) {
      const std::uint32_t rank = word * 64 + static_cast<std::uint32_t>(std::countr_zero(bits));
      if (rank >= to) {
        break;
      }
      add(item_by_birth_[rank]);
    }
  }
}

const std::vector<Extent>& Occupancy::neighbours(ItemId id) {
  found_.clear();
  for (const Span& part : model_.parts_of(model_.items[static_cast<std::size_t>(id)])) {
    collect(part);
  }
  std::sort(found_.begin(), found_.end(),
            [](const Extent& a, const Extent& b) { return a.lower < b.lower; });
  return found_;
}

Offset lowest_gap(const Item& item, const std::vector<Extent>& neighbours) {
  Offset offset = 0;
  for (const Extent& other : neighbours) {
    if (offset + item.size <= other.lower) {
      break;
    }
    offset = std::max(offset, align_up(other.upper, item.alignment));
  }
  return offset;
}

Offset tightest_gap(const Item& item, const std::vector<Extent>& neighbours) {
  Offset best = 0;
  Bytes best_gap = std::numeric_limits<Bytes>::max();
  Offset end = 0;
  for (const Extent& other : neighbours) {
    const Offset offset = align_up(end, item.alignment);
    if (other.lower - end < best_gap && offset + item.size <= other.lower) {
      best_gap = other.lower - end;
      best = offset;
    }
    end = std::max(end, other.upper);
  }
  return best_gap < std::numeric_limits<Bytes>::max() ? best : align_up(end, item.alignment);
}

}  // namespace dsa
