// Local search over orders: a window around the peak is taken out and re-solved exactly, all other
// nodes keeping their places; windows grow where small ones do not help.
#include <algorithm>
#include <array>
#include <random>

#include "scheduler/downsets.h"
#include "scheduler/eager.h"
#include "scheduler/runner.h"
#include "scheduler/strategies.h"

namespace schedule {
namespace {

constexpr std::array<std::size_t, 6> kLengths{24, 48, 96, 192, 384, 768};
constexpr double kSecondsPerWindow = 2;  // a window that takes longer is left for a shorter one
constexpr std::size_t kBytesPerWindow = std::size_t{1} << 28;

// The first position at which the order reaches its peak.
std::size_t peak_position(const Problem& problem, const Order& order, Bytes peak) {
  Runner runner(problem);
  std::size_t i = 0;
  while (i < order.size() && runner.while_running(order[i]) < peak) {
    runner.run(order[i++]);
  }
  return i;
}

// Re-solves order[begin, end). Answers whether the part's peak fell; then `order` has changed.
bool improve_window(const Search& search, Order& order, std::size_t begin, std::size_t end) {
  const Problem part = make_part(search.problem, order, begin, end);
  Order given(end - begin);
  for (std::size_t i = 0; i < given.size(); ++i) {
    given[i] = static_cast<NodeId>(i);
  }
  Incumbent incumbent(part, given);
  const Bytes before = incumbent.peak();
  search_downsets(part, incumbent, {search.deadline.within(kSecondsPerWindow), kBytesPerWindow},
                  "windows");
  if (incumbent.peak() >= before) {
    return false;
  }
  const Order old(order.begin() + static_cast<std::ptrdiff_t>(begin),
                  order.begin() + static_cast<std::ptrdiff_t>(end));
  for (std::size_t i = 0; i < old.size(); ++i) {
    order[begin + i] = old[static_cast<std::size_t>(incumbent.order()[i])];
  }
  return true;
}

// Tries windows of this length that hold the position: centred, behind it, before it, and one at
// random.
bool improve_around(Search& search, Order& order, std::size_t position, std::size_t length,
                    std::mt19937_64& random) {
  const std::array<std::size_t, 4> leads{length / 2, 1, length - 1, random() % length};
  for (const std::size_t lead : leads) {
    const std::size_t begin = position - std::min(position, lead);
    const std::size_t end = std::min(order.size(), begin + length);
    if (search.over()) {
      return false;
    }
    if (improve_window(search, order, begin, end)) {
      return true;
    }
    if (begin == 0 && end == order.size()) {
      return false;
    }
  }
  return false;
}

}  // namespace

void run_windows(Search& search) {
  std::mt19937_64 random(search.seed);
  Order order = search.incumbent.order();
  for (std::size_t i = 0; i < kLengths.size() && !search.over();) {
    const Bytes peak = peak_of(search.problem, order);
    const std::size_t position = peak_position(search.problem, order, peak);
    if (improve_around(search, order, position, kLengths[i], random)) {
      order = settle(search.problem, order);
      search.incumbent.offer(order, peak_of(search.problem, order), "windows");
      i = 0;
    } else if (kLengths[i] >= order.size()) {
      return;
    } else {
      ++i;
    }
  }
}

}  // namespace schedule
