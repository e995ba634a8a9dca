// Bounds by minimum cuts, and the strategy that follows the cuts.
#include "scheduler/cuts.h"

#include <algorithm>

#include "scheduler/eager.h"
#include "scheduler/index.h"
#include "scheduler/runner.h"
#include "scheduler/state_network.h"
#include "scheduler/strategies.h"

namespace schedule {
namespace {

void mark_reachable(const Lists& next, NodeId from, std::vector<bool>& marked) {
  marked[at(from)] = true;
  std::vector<NodeId> queue{from};
  for (std::size_t head = 0; head < queue.size(); ++head) {
    for (const NodeId n : next[queue[head]]) {
      if (!marked[at(n)]) {
        marked[at(n)] = true;
        queue.push_back(n);
      }
    }
  }
}

// The nodes that reach more than `above` in this order, highest first.
std::vector<NodeId> high_nodes(const Problem& problem, const Order& order, Bytes above) {
  Runner runner(problem);
  std::vector<std::pair<Bytes, NodeId>> high;
  for (const NodeId n : order) {
    if (runner.while_running(n) > above) {
      high.emplace_back(-runner.while_running(n), n);
    }
    runner.run(n);
  }
  std::stable_sort(high.begin(), high.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<NodeId> nodes;
  for (const auto& [level, n] : high) {
    nodes.push_back(n);
  }
  return nodes;
}

// First the nodes of the set, then the others, both in the given order. By submodularity the level
// before the set's border is no higher than it was; see scheduler/README.md, cuts.
Order through(const Order& order, const std::vector<bool>& set) {
  Order result = order;
  std::stable_partition(result.begin(), result.end(), [&](NodeId n) { return set[at(n)]; });
  return result;
}

}  // namespace

Bytes bound_by_operators(const Problem& problem) {
  Bytes bound = problem.base;
  for (NodeId n = 0; n < problem.nodes(); ++n) {
    Bytes saved = 0;
    for (const Saving& saving : problem.savings[at(n)]) {
      saved = std::max(saved, saving.bytes);
    }
    Bytes bytes = problem.base + problem.workspace[at(n)] - saved;
    for (const auto& list : {problem.makes[n], problem.reads[n]}) {
      for (const StorageId s : list) {
        bytes += problem.storage(s).bytes;
      }
    }
    bound = std::max(bound, bytes);
  }
  return bound;
}

std::optional<CheapestState> cheapest_state(const Problem& problem, NodeId node,
                                            const Deadline& deadline) {
  std::vector<bool> earlier(at(problem.nodes()));
  std::vector<bool> later(at(problem.nodes()));
  mark_reachable(problem.preds, node, earlier);
  mark_reachable(problem.succs, node, later);
  earlier[at(node)] = false;
  return StateNetwork(problem, node, earlier, later).solve(deadline);
}

// The incumbent starts with that order and its bound.
void run_framework(Search&) {}

void run_cuts(Search& search) {
  const Problem& problem = search.problem;
  std::vector<bool> solved(at(problem.nodes()));
  Order order = search.incumbent.order();
  bool moved = true;
  while (moved && !search.over()) {
    moved = false;
    for (const NodeId n : high_nodes(problem, order, search.incumbent.bound())) {
      if (search.over() || solved[at(n)]) {
        continue;
      }
      solved[at(n)] = true;
      const auto state = cheapest_state(problem, n, search.deadline);
      if (!state) {
        return;
      }
      search.incumbent.raise_bound(state->while_running);
      for (const std::vector<bool>* set : {&state->before, &state->before_largest}) {
        const Order settled = settle(problem, through(order, *set), search.deadline);
        const Bytes peak = peak_of(problem, settled);
        if (search.incumbent.offer(settled, peak, "cuts")) {
          order = settled;
          moved = true;
        }
      }
      if (moved) {
        break;
      }
    }
  }
}

}  // namespace schedule
