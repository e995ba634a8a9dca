// Depth first from the outputs: before a node, what it needs is run subtree by subtree. A subtree
// whose peak is far above what it leaves behind goes first, while little else is alive. On trees
// this is the best order that finishes each subtree before it begins another.
// Source: Liu 1986, "On the storage requirement in the out-of-core multifrontal method", best
// postorder; Sethi and Ullman 1970 for unit sizes. Then the same with trees in their best order of
// all (linearize.h).
#include <algorithm>

#include "scheduler/eager.h"
#include "scheduler/index.h"
#include "scheduler/linearize.h"
#include "scheduler/strategies.h"

namespace schedule {
namespace {

// More than all sizes of a graph together. Along a chain of shared results, a subtree's peak could
// grow far beyond.
constexpr Bytes kMaxPeak = Bytes{1} << 61;

// What running a node and everything before it costs, as if the graph were a tree: a result that
// several nodes read is counted for each of them.
struct Subtree {
  Bytes peak = 0;
  Bytes left = 0;  // made by the node, alive afterwards
};

class Postorder {
 public:
  explicit Postorder(const Problem& problem)
      : problem_(problem), subtrees_(at(problem.nodes())), before_(at(problem.nodes())) {
    // In the given order ancestors come first. Where a tree's own order has been added, some do
    // not, and count as nothing: a worse guess.
    for (NodeId n = 0; n < problem.nodes(); ++n) {
      measure(n);
    }
  }

  Order run() const {
    Order order;
    std::vector<std::size_t> next(at(problem_.nodes()));  // which predecessor to enter next
    std::vector<bool> entered(next.size());
    std::vector<NodeId> stack;
    for (NodeId last = problem_.nodes(); last-- > 0;) {
      if (entered[at(last)] || !problem_.succs[last].empty()) {
        continue;
      }
      stack.push_back(last);
      entered[at(last)] = true;
      while (!stack.empty()) {
        const NodeId n = stack.back();
        if (next[at(n)] == before_[at(n)].size()) {
          order.push_back(n);
          stack.pop_back();
          continue;
        }
        const NodeId pred = before_[at(n)][next[at(n)]++];
        if (!entered[at(pred)]) {
          entered[at(pred)] = true;
          stack.push_back(pred);
        }
      }
    }
    return order;
  }

 private:
  void measure(NodeId n) {
    std::vector<NodeId>& before = before_[at(n)];
    before.assign(problem_.preds[n].begin(), problem_.preds[n].end());
    std::stable_sort(before.begin(), before.end(),
                     [this](NodeId a, NodeId b) { return drop(a) > drop(b); });
    Subtree& mine = subtrees_[at(n)];
    Bytes held = 0;
    for (const NodeId pred : before) {
      mine.peak = std::max(mine.peak, held + std::min(subtrees_[at(pred)].peak, kMaxPeak));
      held += subtrees_[at(pred)].left;
    }
    for (const StorageId s : problem_.makes[n]) {
      mine.left += problem_.storage(s).bytes;
    }
    mine.peak = std::max(mine.peak, held + mine.left + problem_.workspace[at(n)]);
  }
  Bytes drop(NodeId n) const { return subtrees_[at(n)].peak - subtrees_[at(n)].left; }

  const Problem& problem_;
  std::vector<Subtree> subtrees_;
  std::vector<std::vector<NodeId>> before_;  // per node: its predecessors, as they are entered
};

// Whether each node must follow the one before it.
bool is_only_order(const Problem& problem, const Order& order) {
  for (std::size_t i = 1; i < order.size(); ++i) {
    if (std::ranges::count(problem.preds[order[i]], order[i - 1]) == 0) {
      return false;
    }
  }
  return true;
}

}  // namespace

void run_subtrees(Search& search) {
  const Order order = Postorder(search.problem).run();
  search.incumbent.offer(order, peak_of(search.problem, order), "subtrees");
  const Order settled = settle(search.problem, order, search.deadline);
  search.incumbent.offer(settled, peak_of(search.problem, settled), "subtrees");
  if (search.over()) {
    return;
  }
  Problem linear = search.problem;
  linearize_trees(linear);
  const Order trees = Postorder(linear).run();
  const Bytes peak = peak_of(search.problem, trees);
  search.incumbent.offer(trees, peak, "subtrees");
  if (is_only_order(linear, trees)) {
    search.incumbent.raise_bound(peak);
  }
}

}  // namespace schedule
