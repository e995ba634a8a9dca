// The sweep and its free list. Cold.
#include "planner/sweep_fit.h"

#include <map>
#include <set>

#include "planner/orders.h"

namespace dsa {
namespace {

// Free blocks of a range of memory, by offset and by size; neighbours are joined.
class FreeList {
 public:
  FreeList(Offset lower, Bytes length) : top_(lower) { insert(lower, length); }

  // The place in the smallest free block that is large enough; -1 if there is none.
  Offset take(Bytes size, Bytes alignment) {
    for (auto block = by_size_.lower_bound({size, 0}); block != by_size_.end(); ++block) {
      const auto [length, lower] = *block;
      const Offset offset = align_up(lower, alignment);
      if (offset + size <= lower + length) {
        erase(lower, length);
        insert(lower, offset - lower);
        insert(offset + size, lower + length - offset - size);
        return offset;
      }
    }
    return -1;
  }

  // A place above all that was ever taken, from the last free block on if that ends there.
  Offset extend(Bytes size, Bytes alignment) {
    Offset lower = top_;
    if (!by_offset_.empty() && by_offset_.rbegin()->first + by_offset_.rbegin()->second == top_) {
      lower = by_offset_.rbegin()->first;
      erase(lower, top_ - lower);
    }
    const Offset offset = align_up(lower, alignment);
    insert(lower, offset - lower);
    top_ = offset + size;
    return offset;
  }

  void give(Offset lower, Bytes length) {
    const auto next = by_offset_.lower_bound(lower);
    if (next != by_offset_.end() && next->first == lower + length) {
      length += next->second;
      erase(next->first, next->second);
    }
    const auto after = by_offset_.lower_bound(lower);
    if (after != by_offset_.begin()) {
      const auto [before, size] = *std::prev(after);
      if (before + size == lower) {
        erase(before, size);
        lower = before;
        length += size;
      }
    }
    insert(lower, length);
  }

 private:
  void insert(Offset lower, Bytes length) {
    if (length > 0) {
      by_offset_.emplace(lower, length);
      by_size_.emplace(length, lower);
    }
  }
  void erase(Offset lower, Bytes length) {
    by_offset_.erase(lower);
    by_size_.erase({length, lower});
  }

  std::map<Offset, Bytes> by_offset_;
  std::set<std::pair<Bytes, Offset>> by_size_;
  Offset top_ = 0;
};

}  // namespace

Found sweep_best_fit(const Model& model, const Budget& budget, Bytes floor) {
  const Order births = by_birth(model);
  std::vector<std::vector<ItemId>> deaths(model.load.size() + 1);
  for (const ItemId id : births) {
    deaths[static_cast<std::size_t>(model.items[static_cast<std::size_t>(id)].upper)].push_back(id);
  }
  Offsets offsets(model.items.size());
  FreeList below(0, floor);
  FreeList above(floor, 0);
  Section now = 0;
  for (const ItemId id : births) {
    const Item& item = model.items[static_cast<std::size_t>(id)];
    for (; now <= item.lower; ++now) {
      for (const ItemId dead : deaths[static_cast<std::size_t>(now)]) {
        const Offset offset = offsets[static_cast<std::size_t>(dead)];
        (offset < floor ? below : above)
            .give(offset, model.items[static_cast<std::size_t>(dead)].size);
      }
    }
    Offset offset = below.take(item.size, item.alignment);
    offset = offset >= 0 ? offset : above.take(item.size, item.alignment);
    offset = offset >= 0 ? offset : above.extend(item.size, item.alignment);
    offsets[static_cast<std::size_t>(id)] = offset;
  }
  return model.has_fixed ? settle(model, offsets, budget) : Found{.offsets = std::move(offsets)};
}

}  // namespace dsa
