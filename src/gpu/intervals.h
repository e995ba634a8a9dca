// A set of disjoint, non-adjacent half-open intervals [lower, upper) of offsets, with the smallest
// one that fits found directly. Every operation is O(log n). Cold.
#pragma once

#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "src/base/check.h"

namespace memo::gpu {

struct Interval {
  std::uint64_t lower = 0;
  std::uint64_t upper = 0;
  [[nodiscard]] std::uint64_t bytes() const { return upper - lower; }
};

class Intervals {
 public:
  using BySize = std::set<std::pair<std::uint64_t, std::uint64_t>>;  // {bytes, lower}

  // Adds what must not be in the set yet, and joins it with its neighbours.
  void add(std::uint64_t lower, std::uint64_t upper) {
    auto next = by_lower_.lower_bound(lower);
    MEMO_DCHECK(next == by_lower_.end() || next->first >= upper);
    if (next != by_lower_.begin()) {
      const auto before = std::prev(next);
      MEMO_DCHECK(before->second <= lower);
      if (before->second == lower) {
        lower = before->first;
        erase(before);
      }
    }
    if (next != by_lower_.end() && next->first == upper) {
      upper = next->second;
      erase(next);
    }
    insert(lower, upper);
  }

  // Removes what must be in the set.
  void remove(std::uint64_t lower, std::uint64_t upper) {
    const auto found = holder(lower);
    MEMO_DCHECK(found != by_lower_.end() && found->second >= upper);
    const Interval whole{found->first, found->second};
    erase(found);
    if (whole.lower < lower) {
      insert(whole.lower, lower);
    }
    if (upper < whole.upper) {
      insert(upper, whole.upper);
    }
  }
  // Removes what of [lower, upper) is in the set.
  void remove_any(std::uint64_t lower, std::uint64_t upper) {
    for (auto at = first_after(lower); at != by_lower_.end() && at->first < upper;
         at = first_after(lower)) {
      const std::uint64_t from = at->first > lower ? at->first : lower;
      const std::uint64_t to = at->second < upper ? at->second : upper;
      remove(from, to);
      lower = to;
    }
  }

  [[nodiscard]] bool contains(std::uint64_t lower, std::uint64_t upper) const {
    const auto found = holder(lower);
    return found != by_lower_.end() && found->second >= upper;
  }
  // The smallest of at least `bytes`, the lowest of equals.
  [[nodiscard]] std::optional<Interval> best_fit(std::uint64_t bytes) const {
    const auto found = by_size_.lower_bound({bytes, 0});
    return found == by_size_.end()
               ? std::nullopt
               : std::optional(Interval{found->second, found->second + found->first});
  }
  [[nodiscard]] const BySize& by_size() const { return by_size_; }
  // Calls visit(lower, upper) for each interval that meets [lower, upper), cut to it.
  template <typename Visit>
  void each_within(std::uint64_t lower, std::uint64_t upper, Visit visit) const {
    for (auto at = first_after(lower); at != by_lower_.end() && at->first < upper; ++at) {
      visit(at->first > lower ? at->first : lower, at->second < upper ? at->second : upper);
    }
  }

 private:
  using ByLower = std::map<std::uint64_t, std::uint64_t>;

  [[nodiscard]] ByLower::const_iterator first_after(std::uint64_t lower) const {
    auto at = by_lower_.upper_bound(lower);
    if (at != by_lower_.begin() && std::prev(at)->second > lower) {
      --at;
    }
    return at;
  }
  [[nodiscard]] ByLower::const_iterator holder(std::uint64_t point) const {
    const auto at = first_after(point);
    return at != by_lower_.end() && at->first <= point ? at : by_lower_.end();
  }
  void insert(std::uint64_t lower, std::uint64_t upper) {
    by_lower_.emplace(lower, upper);
    by_size_.emplace(upper - lower, lower);
  }
  void erase(ByLower::const_iterator at) {
    by_size_.erase({at->second - at->first, at->first});
    by_lower_.erase(at);
  }

  ByLower by_lower_;
  BySize by_size_;
};

}  // namespace memo::gpu
