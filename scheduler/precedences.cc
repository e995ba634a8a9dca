// Bounds by what follows of a limit, and the strategy that searches under what has followed.
#include "scheduler/precedences.h"

#include <algorithm>
#include <array>

#include "scheduler/downsets.h"
#include "scheduler/index.h"
#include "scheduler/state_network.h"
#include "scheduler/strategies.h"

namespace schedule {
namespace {

// A round of N nodes takes up to N^2 small cuts: with so many, some 10 s.
constexpr std::int32_t kMaxNodes = 1000;
// Of the time left, for what follows of a limit; and of what is left then, for the search under it.
constexpr double kShareOfLimit = 0.4;
constexpr double kShareOfSearch = 0.2;

void unite(std::vector<bool>& set, const std::vector<bool>& more) {
  for (std::size_t i = 0; i < set.size(); ++i) {
    set[i] = set[i] || more[i];
  }
}

// Bytes alive once these nodes, and no others, have run.
Bytes level_after(const Problem& problem, const std::vector<bool>& run) {
  Bytes level = problem.base;
  for (StorageId s = 0; at(s) < problem.storages.size(); ++s) {
    const Storage& storage = problem.storage(s);
    const bool made = storage.producer == kNoNode || run[at(storage.producer)];
    const auto waits = [&run](NodeId reader) { return !run[at(reader)]; };
    if (made && (storage.kept || std::ranges::any_of(problem.readers[s], waits))) {
      level += storage.bytes;
    }
  }
  return level;
}

// The lists with one more item in one of them.
Lists with(const Lists& lists, NodeId index, NodeId item) {
  Lists result = lists;
  result.items.insert(result.items.begin() + result.starts[at(index) + 1], item);
  for (std::size_t i = at(index) + 1; i < result.starts.size(); ++i) {
    ++result.starts[i];
  }
  return result;
}

}  // namespace

Precedences::Precedences(const Problem& problem)
    : problem_(problem),
      earlier_(at(problem.nodes()), std::vector<bool>(at(problem.nodes()))),
      later_(earlier_) {
  // Each from its direct neighbours, in an order in which those are whole.
  const Order order = any_order(problem);
  for (const NodeId n : order) {
    for (const NodeId pred : problem.preds[n]) {
      earlier_[at(n)][at(pred)] = true;
      unite(earlier_[at(n)], earlier_[at(pred)]);
    }
  }
  for (std::size_t i = order.size(); i-- > 0;) {
    std::vector<bool>& later = later_[at(order[i])];
    later[at(order[i])] = true;
    for (const NodeId next : problem.succs[order[i]]) {
      unite(later, later_[at(next)]);
    }
  }
}

// False if the second must come before the first already.
bool Precedences::add(NodeId first, NodeId second) {
  if (later_[at(second)][at(first)]) {
    return false;
  }
  if (later_[at(first)][at(second)]) {
    return true;
  }
  problem_.preds = with(problem_.preds, second, first);
  problem_.succs = with(problem_.succs, first, second);
  std::vector<bool> before = earlier_[at(first)];
  before[at(first)] = true;
  const std::vector<bool> after = later_[at(second)];
  for (std::size_t n = 0; n < before.size(); ++n) {
    if (before[n]) {
      unite(later_[n], after);
    }
    if (after[n]) {
      unite(earlier_[n], before);
    }
  }
  ++added_;
  return true;
}

// What is added on the way makes the network too cheap, not wrong: the next round has it whole.
Precedences::Verdict Precedences::deduce_around(NodeId node, Bytes limit,
                                                const Deadline& deadline) {
  const std::vector<bool>& earlier = earlier_[at(node)];
  const std::vector<bool>& later = later_[at(node)];
  StateNetwork network(problem_, node, earlier, later);
  const auto state = network.solve(deadline);
  if (!state) {
    return Verdict::kLate;
  }
  if (state->while_running > limit) {
    return Verdict::kRefuted;
  }
  const Bytes itself = state->while_running - level_after(problem_, state->before);
  std::vector<bool> run;
  for (NodeId other = 0; other < problem_.nodes(); ++other) {
    for (const bool has_run : {true, false}) {
      const std::vector<bool>& cheapest = has_run ? state->before_largest : state->before;
      if (earlier[at(other)] || later[at(other)] || cheapest[at(other)] == has_run) {
        continue;  // where a cheapest state has it so, that costs nothing more
      }
      // Nor is a cut needed where a state that is at hand has it so and keeps the limit.
      const std::vector<bool>& moved = has_run ? earlier_[at(other)] : later_[at(other)];
      run = cheapest;
      run[at(other)] = has_run;
      for (std::size_t n = 0; n < run.size(); ++n) {
        run[n] = moved[n] ? has_run : run[n];
      }
      if (itself + level_after(problem_, run) <= limit) {
        continue;
      }
      const auto least = network.least_if(other, has_run, deadline);
      if (!least) {
        return Verdict::kLate;
      }
      if (*least > limit && !(has_run ? add(node, other) : add(other, node))) {
        return Verdict::kRefuted;
      }
    }
  }
  return Verdict::kOpen;
}

Precedences::Verdict Precedences::deduce(Bytes limit, const Deadline& deadline) {
  for (std::size_t before = added_ + 1; before != added_;) {
    before = added_;
    for (NodeId node = 0; node < problem_.nodes(); ++node) {
      const Verdict verdict =
          deadline.passed() ? Verdict::kLate : deduce_around(node, limit, deadline);
      if (verdict != Verdict::kOpen) {
        return verdict;
      }
    }
  }
  return Verdict::kOpen;
}

// Tries limits between the bound and the peak, each half way: what follows of one either refutes
// it, or leaves fewer orders to be searched for one that keeps it. What could not be decided in its
// time counts as open.
void run_precedences(Search& search) {
  if (search.problem.nodes() > kMaxNodes) {
    return;
  }
  Precedences open(search.problem);
  for (Bytes limit = search.incumbent.peak() - 1;
       limit >= search.incumbent.bound() && !search.over();) {
    const Bytes tried = limit - (limit - search.incumbent.bound()) / 2;
    const auto share = [&search](double part) {
      return search.deadline.within(search.deadline.seconds_left() * part);
    };
    Precedences trial = open;
    if (trial.deduce(tried, share(kShareOfLimit)) == Precedences::Verdict::kRefuted) {
      search.incumbent.raise_bound(tried + 1);
      continue;
    }
    Incumbent incumbent(trial.problem(), search.incumbent.order());
    incumbent.raise_bound(tried);  // below that, nothing need be improved
    search_downsets(trial.problem(), incumbent,
                    {.deadline = share(kShareOfSearch), .ceiling = tried + 1}, "precedences");
    if (incumbent.bound() > tried) {
      search.incumbent.raise_bound(tried + 1);
      continue;
    }
    search.incumbent.offer(incumbent.order(), incumbent.peak(), "precedences");
    limit = std::min(tried, search.incumbent.peak()) - 1;
    open = std::move(trial);
  }
}

}  // namespace schedule
