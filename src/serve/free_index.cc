#include "src/serve/free_index.h"

#include <algorithm>
#include <bit>

#include "src/base/check.h"
#include "src/base/os.h"

namespace memo {
namespace {

std::uint32_t narrow(Granules granules) {
  return static_cast<std::uint32_t>(granules.count());
}

std::uint32_t up(std::uint32_t x, std::uint32_t step) {
  return static_cast<std::uint32_t>(round_up(x, step));
}

}  // namespace

unsigned FreeIndex::list_of(std::uint32_t count) {
  if (count < kExact) {
    return count;
  }
  const unsigned log = log2_floor(count);
  return kExact + (log - 4) * kParts + ((count >> (log - 3)) & (kParts - 1));
}

unsigned FreeIndex::Lists::from(unsigned list) const {
  for (unsigned word = list / 64; word < kWords; ++word) {
    const std::uint64_t mask =
        word == list / 64 ? ~std::uint64_t{0} << (list % 64) : ~std::uint64_t{0};
    if (const std::uint64_t bits = any[word] & mask; bits != 0) {
      return word * 64 + static_cast<unsigned>(std::countr_zero(bits));
    }
  }
  return kLists;
}

unsigned FreeIndex::Lists::up_to(unsigned list) const {
  for (unsigned word = list / 64 + 1; word-- > 0;) {
    const std::uint64_t mask =
        word == list / 64 ? ~std::uint64_t{0} >> (63 - list % 64) : ~std::uint64_t{0};
    if (const std::uint64_t bits = any[word] & mask; bits != 0) {
      return word * 64 + log2_floor(bits);
    }
  }
  return kLists;
}

// 0 is no node. A tag may be of a run that is no more, or the link of a block that is not entered
// yet: the node tells.
std::uint32_t FreeIndex::beginning(std::uint32_t first) const {
  const std::uint32_t node = tag(first);
  return node - 1 < used_ && nodes_[node].count != 0 && nodes_[node].first == first ? node : 0;
}

std::uint32_t FreeIndex::ending(std::uint32_t end) const {
  const std::uint32_t node = end == 0 ? 0 : tag(end - 1);
  return node - 1 < used_ && nodes_[node].count != 0 && end_of(node) == end ? node : 0;
}

FreeIndex::Area FreeIndex::area(std::uint32_t node, std::uint32_t top) const {
  Area area{.node = node, .first = nodes_[node].first, .end = end_of(node)};
  for (int i = 0; i < kMostBeside && area.end < top; ++i) {
    const std::uint32_t right = beginning(area.end);
    if (right == 0) {
      break;
    }
    area.end = end_of(right);
  }
  for (int i = 0; i < kMostBeside; ++i) {
    const std::uint32_t left = ending(area.first);
    if (left == 0) {
      break;
    }
    area.node = left;
    area.first = nodes_[left].first;
  }
  return area;
}

void FreeIndex::insert(std::uint32_t first, std::uint32_t count, bool dirty) {
  std::uint32_t node = unused_;
  if (node != 0) {
    unused_ = nodes_[node].next;
  } else if (used_ + 1 < room_ || grow()) {
    node = ++used_;
  } else {
    return;
  }
  ++runs_;
  Lists& lists = lists_[dirty ? 1 : 0];
  const unsigned list = list_of(count);
  const std::uint32_t next = lists.heads[list];
  nodes_[node] = {
      .first = first, .count = count, .next = next, .previous = 0, .dirty = dirty ? 1U : 0U};
  if (next != 0) {
    nodes_[next].previous = node & 0x7fffffffU;
  }
  lists.heads[list] = node;
  lists.any[list / 64] |= std::uint64_t{1} << (list % 64);
  set_tag(first, node);
  set_tag(first + count - 1, node);
}

void FreeIndex::remove(std::uint32_t node) {
  Node& is = nodes_[node];
  Lists& lists = lists_[is.dirty];
  const unsigned list = list_of(is.count);
  if (is.next != 0) {
    nodes_[is.next].previous = is.previous;
  }
  if (is.previous != 0) {
    nodes_[is.previous].next = is.next;
  } else {
    MEMO_DCHECK(lists.heads[list] == node);
    lists.heads[list] = is.next;
    if (is.next == 0) {
      lists.any[list / 64] &= ~(std::uint64_t{1} << (list % 64));
    }
  }
  MEMO_DCHECK(runs_ != 0);
  --runs_;
  is.count = 0;
  is.next = unused_;
  unused_ = node;
}

bool FreeIndex::grow() {
  if (room_ == most_ ||
      !os::commit(reinterpret_cast<char*>(nodes_ + room_), kStep * sizeof(Node))) {
    return false;
  }
  room_ += kStep;
  return true;
}

void FreeIndex::merge(std::uint32_t first, std::uint32_t count, bool dirty) {
  if (const std::uint32_t left = ending(first); left != 0 && (nodes_[left].dirty != 0) == dirty) {
    first = nodes_[left].first;
    count += nodes_[left].count;
    remove(left);
  }
  if (const std::uint32_t right = beginning(first + count);
      right != 0 && (nodes_[right].dirty != 0) == dirty) {
    count += nodes_[right].count;
    remove(right);
  }
  insert(first, count, dirty);
}

void FreeIndex::add(Granules first, Granules count) {
  for (const Granules end = first + count; first < end;) {
    const std::uint8_t bits = pages_.states().at(first);
    const Granules to = pages_.states().alike_until(first, end);
    if ((bits & PageStates::kUsed) == 0) {
      merge(narrow(first), narrow(to - first), bits != 0);
    }
    first = to;
  }
}

void FreeIndex::defer(Granules first) {
  const std::uint32_t granule = narrow(first);
  std::uint32_t head = deferred_.load(std::memory_order_relaxed);
  do {
    set_tag(granule, head);
  } while (!deferred_.compare_exchange_weak(head, granule + 1, std::memory_order_release,
                                            std::memory_order_relaxed));
}

void FreeIndex::enter(std::uint64_t most) {
  for (; most != 0 && has_room(); --most) {
    if (taken_ == 0) {
      if (deferred_.load(std::memory_order_relaxed) == 0) {
        return;
      }
      taken_ = deferred_.exchange(0, std::memory_order_acquire);
    }
    const std::uint32_t first = taken_ - 1;
    taken_ = tag(first);
    add(Granules{first}, pages_.freed_length(Granules{first}));
  }
}

FreeIndex::Place FreeIndex::fit(Kind kind, Granules granules, Granules alignment) const {
  constexpr int kMostLists = 4;
  const Lists& lists = lists_[kind == Kind::kDirty ? 1 : 0];
  const std::uint32_t count = narrow(granules);
  const std::uint32_t step = narrow(alignment);
  unsigned list = lists.from(list_of(count));
  for (int tried = 1; list != kLists; ++tried) {
    Place best;
    int looked = 0;
    for (std::uint32_t node = lists.heads[list]; node != 0 && looked < kMostLooks;
         node = nodes_[node].next) {
      ++looked;
      const std::uint32_t start = up(nodes_[node].first, step);
      if (start + count > end_of(node)) {
        continue;
      }
      const auto less = [&](const Node& is, const Node& other) {
        return is.count < other.count || (is.count == other.count && is.first < other.first);
      };
      if (!best.found() || less(nodes_[node], nodes_[best.node])) {
        best = {Granules{start}, node};
      }
    }
    looks_ += static_cast<std::uint64_t>(looked);
    if (best.found()) {
      return best;
    }
    // In the lists behind that one every run fits, wherever it begins.
    const unsigned sure = list_of(count + step - 1);
    list = lists.from(tried < kMostLists ? list + 1 : std::max(list, sure) + 1);
  }
  return {};
}

// The place in `area` that begins at `start`: its first run. `gain` is the memory in its first
// `written` granules, less the memory in the others.
FreeIndex::Place FreeIndex::at(const Area& area, std::uint32_t start, std::uint32_t count,
                               std::uint32_t written, std::int64_t& gain) const {
  Place place{Granules{start}};
  const std::uint32_t end = std::min(start + count, area.end);
  const std::int64_t used = start + written;
  gain = 0;
  for (std::uint32_t node = area.node; node != 0 && nodes_[node].first < end;
       node = beginning(end_of(node))) {
    if (end_of(node) <= start) {
      continue;
    }
    place.node = place.node == 0 ? node : place.node;
    if (nodes_[node].dirty != 0) {
      const std::int64_t from = std::max(start, nodes_[node].first);
      const std::int64_t to = std::min(end, end_of(node));
      gain += 2 * (std::clamp(used, from, to) - from) - (to - from);
    }
  }
  return place;
}

FreeIndex::Place FreeIndex::overlap(Kind kind, Granules granules, Granules to_write,
                                    Granules alignment, Granules most) const {
  const Lists& lists = lists_[kind == Kind::kDirty ? 1 : 0];
  const std::uint32_t count = narrow(granules);
  const std::uint32_t written = narrow(to_write);
  const std::uint32_t step = narrow(alignment);
  const std::uint32_t top = narrow(most);
  Place best;
  std::int64_t most_gained = 0;
  int looked = 0;
  for (unsigned list = lists.up_to(kLists - 1); list != kLists && looked < kMostLooks;
       list = list == 0 ? kLists : lists.up_to(list - 1)) {
    for (std::uint32_t node = lists.heads[list]; node != 0 && looked < kMostLooks;
         node = nodes_[node].next) {
      ++looked;
      const Area area = this->area(node, top);
      const auto consider = [&](std::uint32_t start) {
        const bool grows = start + count > area.end;
        if (start < area.first || start >= area.end || (grows && area.end != top)) {
          return;
        }
        std::int64_t gain = 0;
        const Place place = at(area, start, count, written, gain);
        const bool tight = !grows && (start < area.first + step || start + count + step > area.end);
        const bool better = !best.found() || gain > most_gained ||
                            (gain == most_gained && place.start < best.start);
        if (better && (tight || gain >= count / 2)) {
          best = place;
          most_gained = gain;
        }
      };
      consider(up(area.first, step));
      consider(up(nodes_[node].first, step));
      for (const std::uint32_t end : {end_of(node), area.end}) {
        if (end >= count) {
          consider((end - count) & ~(step - 1));
        }
      }
    }
  }
  looks_ += static_cast<std::uint64_t>(looked);
  return best;
}

FreeIndex::Place FreeIndex::below(Granules top) const {
  const std::uint32_t node = ending(narrow(top));
  if (node == 0) {
    return {top};
  }
  const Area all = area(node, narrow(top));
  return {Granules{all.first}, all.node};
}

FreeIndex::Place FreeIndex::behind(Granules start, Granules end, Granules top) const {
  const std::uint32_t node = beginning(narrow(start));
  const bool reaches = node != 0 && area(node, narrow(top)).end >= narrow(std::min(end, top));
  return reaches ? Place{start, node} : Place{};
}

void FreeIndex::take(const Place& place, Granules until) {
  const std::uint32_t start = narrow(place.start);
  const std::uint32_t end = narrow(until);
  for (std::uint32_t node = place.node; node != 0;) {
    const std::uint32_t first = nodes_[node].first;
    const std::uint32_t stop = end_of(node);
    const bool dirty = nodes_[node].dirty != 0;
    if (stop > start) {
      remove(node);
      if (first < start) {
        insert(first, start - first, dirty);
      }
      if (stop > end) {
        insert(end, stop - end, dirty);
      }
    }
    node = stop < end ? beginning(stop) : 0;
  }
}

FreeIndex::Dirty::Dirty(FreeIndex& index, Granules least) : index_(index), least_(narrow(least)) {
  const unsigned list = index.lists_[1].from(list_of(least_));
  next_ = list == kLists ? 0 : index.lists_[1].heads[list];
}

FreeIndex::Run FreeIndex::Dirty::take() {
  const Lists& lists = index_.lists_[1];
  for (;;) {
    if (next_ == 0) {
      if (!longer_) {
        return {};
      }
      longer_ = false;
      const unsigned list = lists.up_to(list_of(least_));
      next_ = list == kLists ? 0 : lists.heads[list];
      continue;
    }
    const std::uint32_t node = next_;
    const Node is = index_.nodes_[node];
    next_ = is.next;
    if (next_ == 0) {
      const unsigned here = list_of(is.count);
      const unsigned list = longer_     ? lists.from(here + 1)
                            : here == 0 ? kLists
                                        : lists.up_to(here - 1);
      next_ = list == kLists ? 0 : lists.heads[list];
    }
    ++index_.looks_;
    if ((is.count >= least_) == longer_) {
      index_.remove(node);
      return {Granules{is.first}, Granules{is.count}};
    }
  }
}

bool FreeIndex::valid(Granules top) const {
  std::uint32_t runs = 0;
  for (Granules at; at < top;) {
    const std::uint8_t bits = pages_.states().at(at);
    if ((bits & PageStates::kUsed) != 0) {
      at = pages_.past(at, bits);
      continue;
    }
    Granules end = at;
    while (end < top && pages_.states().at(end) == bits) {
      ++end;
    }
    const std::uint32_t node = beginning(narrow(at));
    if (node == 0 || end_of(node) != narrow(end) || ending(narrow(end)) != node ||
        (nodes_[node].dirty != 0) != (bits != 0)) {
      return false;
    }
    ++runs;
    at = end;
  }
  std::uint32_t listed = 0;
  for (const Lists& lists : lists_) {
    for (unsigned list = lists.from(0); list != kLists; list = lists.from(list + 1)) {
      for (std::uint32_t node = lists.heads[list]; node != 0; node = nodes_[node].next) {
        ++listed;
      }
    }
  }
  return runs == listed && runs == runs_;
}

}  // namespace memo
