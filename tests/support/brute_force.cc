// Exhaustive search over first-fit orders: some order reaches the least height, since every plan
// can be pushed down until each buffer rests on another, and then be rebuilt from the bottom.
#include "tests/support/brute_force.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace dsa::testing {
namespace {

bool alive(const Buffer& buffer, Time time) {
  return time >= buffer.lower && time < buffer.upper &&
         std::none_of(
             buffer.gaps.begin(), buffer.gaps.end(),
             [time](const Interval& gap) { return time >= gap.lower && time < gap.upper; });
}

// Something changes only at the ends of parts, so it is enough to look at those.
bool conflict(const Buffer& a, const Buffer& b) {
  std::vector<Time> times{a.lower, b.lower};
  for (const Buffer* buffer : {&a, &b}) {
    for (const Interval& gap : buffer->gaps) {
      times.push_back(gap.upper);
    }
  }
  return std::any_of(times.begin(), times.end(),
                     [&](Time time) { return alive(a, time) && alive(b, time); });
}

bool clash(const Buffer& a, Offset at_a, const Buffer& b, Offset at_b) {
  return a.size > 0 && b.size > 0 && conflict(a, b) && at_a < at_b + b.size && at_b < at_a + a.size;
}

// The lowest offset of buffer i above which nothing placed before it is in the way.
Offset first_fit(const Problem& problem, std::size_t i, const std::vector<std::size_t>& before,
                 const std::vector<Offset>& offsets) {
  const Buffer& buffer = problem.buffers[i];
  if (buffer.fixed) {
    return *buffer.fixed;
  }
  for (Offset offset = 0;; offset += buffer.alignment) {
    if (std::none_of(before.begin(), before.end(), [&](std::size_t j) {
          return clash(buffer, offset, problem.buffers[j], offsets[j]);
        })) {
      return offset;
    }
  }
}

}  // namespace

std::optional<Bytes> least_height(const Problem& problem) {
  const std::size_t count = problem.buffers.size();
  std::vector<std::size_t> fixed;
  std::vector<std::size_t> order;
  std::vector<Offset> offsets(count);
  for (std::size_t i = 0; i < count; ++i) {
    (problem.buffers[i].fixed ? fixed : order).push_back(i);
    offsets[i] = problem.buffers[i].fixed.value_or(0);
  }
  for (const std::size_t i : fixed) {
    for (const std::size_t j : fixed) {
      if (i < j && clash(problem.buffers[i], offsets[i], problem.buffers[j], offsets[j])) {
        return std::nullopt;
      }
    }
  }
  std::optional<Bytes> least;
  do {
    std::vector<std::size_t> before = fixed;
    for (const std::size_t i : order) {
      offsets[i] = first_fit(problem, i, before, offsets);
      before.push_back(i);
    }
    Bytes height = 0;
    for (std::size_t i = 0; i < count; ++i) {
      height = std::max(height, offsets[i] + problem.buffers[i].size);
    }
    least = std::min(least.value_or(height), height);
  } while (std::next_permutation(order.begin(), order.end()));
  return least;
}

}  // namespace dsa::testing
