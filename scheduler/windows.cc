// Local search over orders: windows around high nodes are taken out and re-solved exactly, all
// other nodes keeping their places. A sweep goes through the order once and treats every node above
// its goal, so that its work does not grow with the number of windows times the graph; windows grow
// where short ones do not help.
#include <algorithm>
#include <array>
#include <random>

#include "scheduler/downsets.h"
#include "scheduler/eager.h"
#include "scheduler/linearize.h"
#include "scheduler/part.h"
#include "scheduler/strategies.h"

namespace schedule {
namespace {

struct Length {
  std::size_t nodes;
  double seconds;     // a window that takes longer is left for another one
  std::size_t bytes;  // likewise, of the search's states
};

// Found by trial: longer windows need more states to say that they cannot be improved.
constexpr std::array<Length, 6> kLengths{{{24, 0.1, std::size_t{1} << 20},
                                          {48, 0.2, std::size_t{1} << 22},
                                          {96, 0.5, std::size_t{1} << 24},
                                          {192, 1, std::size_t{1} << 26},
                                          {384, 2, std::size_t{1} << 28},
                                          {768, 2, std::size_t{1} << 28}}};
constexpr Bytes kGoals = 16;  // a sweep aims at this part of the way down to the bound

class Sweep {
 public:
  Sweep(Search& search, Order& order, const Length& length, std::mt19937_64& random)
      : search_(search),
        order_(order),
        length_(length),
        random_(random),
        lead_(search.problem),
        parts_(search.problem) {}

  // Re-solves windows around the nodes above `goal`; stops where one of them stays at `peak`, the
  // order's own.
  void run(Bytes peak, Bytes goal) {
    for (std::size_t i = 0; i < order_.size() && !search_.over();) {
      if (lead_.while_running(order_[i]) <= goal) {
        lead_.run(order_[i++]);
        continue;
      }
      const auto [begin, end, highest] = improve_around(i, goal);
      if (highest >= peak) {
        return;
      }
      goal = std::max(goal, highest);  // a lower peak elsewhere would be of no use
      for (i = begin; i < end; ++i) {
        if (!lead_.done(order_[i])) {
          lead_.run(order_[i]);
        }
      }
    }
  }

 private:
  struct Stretch {
    std::size_t begin, end;  // may have changed
    Bytes highest;           // peak of the window that was solved last
  };

  // Tries windows that hold the position: before it, at random, centred and behind it, until one is
  // below the goal.
  Stretch improve_around(std::size_t position, Bytes goal) {
    const std::size_t half = length_.nodes / 2;
    const std::array<std::size_t, 4> leads{length_.nodes - 1, half + random_() % half, half, 1};
    Stretch stretch{position, position, 0};
    for (const std::size_t lead : leads) {
      const std::size_t begin = std::max(parts_.position(), position - std::min(position, lead));
      const std::size_t end = std::min(order_.size(), begin + length_.nodes);
      Problem part = parts_.cut(order_, begin, end);
      linearize_trees(part);
      Incumbent incumbent(part, given_order(part));
      incumbent.raise_bound(goal);  // below that, nothing need be improved
      search_downsets(part, incumbent, {search_.deadline.within(length_.seconds), length_.bytes},
                      "windows");
      put_back(incumbent, order_, begin);
      stretch = {std::min(stretch.begin, begin), std::max(stretch.end, end), incumbent.peak()};
      if (incumbent.peak() <= goal || search_.over() || end - begin == order_.size()) {
        break;
      }
    }
    return stretch;
  }

  Search& search_;
  Order& order_;
  const Length& length_;
  std::mt19937_64& random_;
  Runner lead_;
  PartMaker parts_;
};

}  // namespace

void run_windows(Search& search) {
  std::mt19937_64 random(search.seed);
  Order order = search.incumbent.order();
  for (std::size_t i = 0; i < kLengths.size() && !search.over();) {
    const Bytes peak = peak_of(search.problem, order);
    const Bytes goal = peak - std::max<Bytes>(1, (peak - search.incumbent.bound()) / kGoals);
    Sweep(search, order, kLengths[i], random).run(peak, goal);
    if (peak_of(search.problem, order) < peak) {
      order = settle(search.problem, order, search.deadline);
      search.incumbent.offer(order, peak_of(search.problem, order), "windows");
      i = 0;
    } else if (kLengths[i].nodes >= order.size()) {
      return;
    } else {
      ++i;
    }
  }
}

}  // namespace schedule
