// Parts between articulation points, each by the search over downsets; and the same with small
// tensors left out, which multiply the downsets but hardly move the peak.
#include "scheduler/exact.h"

#include <algorithm>

#include "scheduler/divide.h"
#include "scheduler/downsets.h"
#include "scheduler/eager.h"
#include "scheduler/linearize.h"
#include "scheduler/part.h"

namespace schedule {
namespace {

constexpr double kShareOfPart = 0.5;  // of the time left, for a part that is not the last
constexpr double kShareOfStage = 0.4;
constexpr Bytes kFiner = 8;  // by which factor each stage's limit of smallness falls

// Re-solves order[begin, end) exactly, as far as time permits. Answers the part's lower bound.
Bytes solve_part(const Search& search, const Deadline& deadline, const Problem& part, Order& order,
                 std::size_t begin) {
  Incumbent incumbent(part, given_order(part));
  incumbent.raise_bound(search.incumbent.bound());  // below that, nothing need be improved
  search_downsets(part, incumbent, {deadline}, "downsets");
  put_back(incumbent, order, begin);
  return incumbent.bound();
}

}  // namespace

void solve_parts(Search& search) {
  Order order = search.incumbent.order();
  std::vector<std::size_t> borders = articulation_positions(search.problem, order);
  borders.push_back(order.size());
  Bytes bound = search.incumbent.bound();
  Runner runner(search.problem);
  PartMaker parts(search.problem);
  std::size_t begin = 0;
  for (std::size_t i = 0; i < borders.size(); ++i) {
    const auto parts_left = static_cast<double>(borders.size() - i);
    const std::size_t end = std::min(order.size(), borders[i] + 1);
    Bytes peak = 0;
    for (std::size_t j = begin; j < end; ++j) {
      peak = std::max(peak, runner.while_running(order[j]));
      runner.run(order[j]);
    }
    if (peak <= search.incumbent.bound() || search.deadline.passed()) {
      begin = end;
      continue;
    }
    const Deadline deadline = search.deadline.within(search.deadline.seconds_left() *
                                                     std::max(kShareOfPart, 1 / parts_left));
    Problem part = parts.cut(order, begin, end);
    linearize_trees(part);
    bound = std::max(bound, solve_part(search, deadline, part, order, begin));
    begin = end;
  }
  search.incumbent.offer(order, peak_of(search.problem, order), "downsets");
  search.incumbent.raise_bound(bound);
}

Problem without_small(const Problem& problem, Bytes least) {
  Problem coarse = problem;
  const auto round = [least](Bytes& bytes) { bytes = bytes < least ? 0 : bytes; };
  for (Storage& storage : coarse.storages) {
    round(storage.bytes);
  }
  std::ranges::for_each(coarse.workspace, round);
  for (std::vector<Saving>& savings : coarse.savings) {
    std::erase_if(savings, [least](const Saving& saving) { return saving.bytes < least; });
  }
  return coarse;
}

// From coarse to fine, and at last with the sizes as they are, until a stage cannot be solved in
// its time. An order that is best in a coarse problem is a candidate in the problem itself.
void run_coarse(Search& search) {
  for (Bytes least = search.incumbent.peak() - search.incumbent.bound();
       least > 1 && !search.over(); least /= kFiner) {
    const Problem coarse = without_small(search.problem, least);
    Incumbent incumbent(coarse, search.incumbent.order());
    incumbent.raise_bound(search.incumbent.bound());  // below that, nothing need be improved
    Search stage{coarse, incumbent,
                 search.deadline.within(search.deadline.seconds_left() * kShareOfStage),
                 search.seed};
    solve_parts(stage);
    search.incumbent.raise_bound(incumbent.bound());
    const Order order = settle(search.problem, incumbent.order(), search.deadline);
    search.incumbent.offer(order, peak_of(search.problem, order), "coarse");
    if (!incumbent.closed()) {
      return;
    }
  }
  if (!search.over()) {
    solve_parts(search);
  }
}

}  // namespace schedule
