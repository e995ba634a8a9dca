// The default: cheap strategies on the whole graph, then the exact search between articulation
// points, then beam and local search until the time is up.
#include <algorithm>
#include <array>

#include "scheduler/cuts.h"
#include "scheduler/divide.h"
#include "scheduler/downsets.h"
#include "scheduler/runner.h"
#include "scheduler/strategies.h"

namespace schedule {
namespace {

struct Stage {
  Run run;
  double share;  // of the time that is left when it begins
};

// Shares leave later stages something to do; a stage that finishes early passes its time on.
constexpr std::array<Stage, 3> kCheap{{{run_list, 0.3}, {run_eager, 0.3}, {run_cuts, 0.4}}};
constexpr std::array<Stage, 3> kCostly{{{run_beam, 0.3}, {run_windows, 0.8}, {run_cuts, 1.0}}};
constexpr double kExactShare = 0.5;

void run_stages(Search& search, std::span<const Stage> stages) {
  for (const Stage& stage : stages) {
    if (search.over()) {
      return;
    }
    Search part{search.problem, search.incumbent,
                search.deadline.within(search.deadline.seconds_left() * stage.share), search.seed};
    stage.run(part);
  }
}

// Re-solves order[begin, end) exactly, as far as time permits. Answers the part's lower bound.
Bytes solve_part(const Search& search, const Deadline& deadline, Order& order, std::size_t begin,
                 std::size_t end) {
  const Problem part = make_part(search.problem, order, begin, end);
  Order given(end - begin);
  for (std::size_t i = 0; i < given.size(); ++i) {
    given[i] = static_cast<NodeId>(i);
  }
  Incumbent incumbent(part, given);
  incumbent.raise_bound(search.incumbent.bound());  // below that, nothing need be improved
  search_downsets(part, incumbent, {deadline}, "downsets");
  const Order old(order.begin() + static_cast<std::ptrdiff_t>(begin),
                  order.begin() + static_cast<std::ptrdiff_t>(end));
  for (std::size_t i = 0; i < old.size(); ++i) {
    order[begin + i] = old[static_cast<std::size_t>(incumbent.order()[i])];
  }
  return incumbent.bound();
}

// The parts between articulation points are independent: the peak is their greatest, and so is the
// bound.
void solve_parts(Search& search) {
  Order order = search.incumbent.order();
  std::vector<std::size_t> borders = articulation_positions(search.problem, order);
  borders.push_back(order.size());
  Bytes bound = search.incumbent.bound();
  Runner runner(search.problem);
  std::size_t begin = 0;
  for (std::size_t i = 0; i < borders.size(); ++i) {
    const auto parts_left = static_cast<double>(borders.size() - i);
    const std::size_t end = std::min(order.size(), borders[i] + 1);
    Bytes peak = 0;
    for (std::size_t j = begin; j < end; ++j) {
      peak = std::max(peak, runner.while_running(order[j]));
      runner.run(order[j]);
    }
    if (peak <= search.incumbent.bound()) {
      begin = end;
      continue;
    }
    const Deadline deadline = search.deadline.within(search.deadline.seconds_left() *
                                                     std::max(kExactShare, 1 / parts_left));
    bound = std::max(bound, solve_part(search, deadline, order, begin, end));
    begin = end;
  }
  search.incumbent.offer(order, peak_of(search.problem, order), "downsets");
  search.incumbent.raise_bound(bound);
}

}  // namespace

void run_portfolio(Search& search) {
  search.incumbent.raise_bound(bound_by_operators(search.problem));
  run_stages(search, kCheap);
  if (!search.over()) {
    Search exact{search.problem, search.incumbent,
                 search.deadline.within(search.deadline.seconds_left() * kExactShare), search.seed};
    solve_parts(exact);
  }
  run_stages(search, kCostly);
}

}  // namespace schedule
