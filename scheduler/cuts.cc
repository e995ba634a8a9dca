// Bounds by minimum cuts, and the strategy that follows the cuts.
#include "scheduler/cuts.h"

#include <algorithm>

#include "scheduler/eager.h"
#include "scheduler/min_cut.h"
#include "scheduler/runner.h"
#include "scheduler/strategies.h"

namespace schedule {
namespace {

std::size_t at(std::int32_t index) {
  return static_cast<std::size_t>(index);
}

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

// A saving counts for the bound unless the input surely outlives the node.
Bytes possible_saving(const Problem& problem, NodeId node, const std::vector<bool>& later) {
  Bytes best = 0;
  for (const Saving& saving : problem.savings[at(node)]) {
    const bool outlives = std::ranges::any_of(problem.readers[saving.input], [&](NodeId reader) {
      return reader != node && later[at(reader)];
    });
    best = std::max(best, outlives ? 0 : saving.bytes);
  }
  return best;
}

// Nodes in the network: the source stands for what has surely run, the sink for what surely has
// not.
class StateNetwork {
 public:
  StateNetwork(const Problem& problem, NodeId node)
      : problem_(problem),
        node_(node),
        earlier_(at(problem.nodes())),
        later_(earlier_.size()),
        network_(2),
        vertex_(earlier_.size(), kSink) {
    mark_reachable(problem.preds, node, earlier_);
    mark_reachable(problem.succs, node, later_);
    earlier_[at(node)] = false;
    for (std::size_t n = 0; n < vertex_.size(); ++n) {
      vertex_[n] = earlier_[n] ? kSource : later_[n] ? kSink : network_.add_vertex();
    }
    for (NodeId n = 0; n < problem.nodes(); ++n) {
      for (const NodeId pred : problem.preds[n]) {
        if (vertex_[at(n)] > kSink && vertex_[at(pred)] > kSink) {
          network_.add_arc(vertex_[at(n)], vertex_[at(pred)], FlowNetwork::kInfinite);
        }
      }
    }
    for (std::size_t s = 0; s < problem.storages.size(); ++s) {
      add_storage(static_cast<StorageId>(s));
    }
  }

  std::optional<CheapestState> solve(const Deadline& deadline) {
    const auto cut = network_.min_cut(kSource, kSink, deadline);
    if (!cut) {
      return std::nullopt;
    }
    CheapestState result;
    result.while_running = problem_.base + always_ + *cut + problem_.workspace[at(node_)] -
                           possible_saving(problem_, node_, later_);
    for (const StorageId s : problem_.makes[node_]) {
      result.while_running += problem_.storage(s).bytes;
    }
    const std::vector<bool> out = network_.sink_side(kSink);
    for (const FlowNetwork::Vertex v : vertex_) {
      result.before.push_back(network_.source_side(v));
      result.before_largest.push_back(!out[at(v)]);
    }
    return result;
  }

 private:
  static constexpr FlowNetwork::Vertex kSource = 0;
  static constexpr FlowNetwork::Vertex kSink = 1;

  // The storage costs its bytes if its producer is on the source's side and it is kept or a reader
  // is not.
  void add_storage(StorageId s) {
    const Storage& storage = problem_.storage(s);
    const FlowNetwork::Vertex producer =
        storage.producer == kNoNode ? kSource : vertex_[at(storage.producer)];
    if (producer == kSink) {
      return;
    }
    bool outlives = storage.kept;
    std::vector<FlowNetwork::Vertex> readers;
    for (const NodeId reader : problem_.readers[s]) {
      const FlowNetwork::Vertex v = vertex_[at(reader)];
      outlives = outlives || v == kSink;
      if (v > kSink) {
        readers.push_back(v);
      }
    }
    if (outlives && producer == kSource) {
      always_ += storage.bytes;
    } else if (outlives) {
      network_.add_arc(producer, kSink, storage.bytes);
    } else if (readers.size() == 1) {
      network_.add_arc(producer, readers.front(), storage.bytes);
    } else if (!readers.empty()) {
      const FlowNetwork::Vertex alive = network_.add_vertex();
      network_.add_arc(producer, alive, storage.bytes);
      for (const FlowNetwork::Vertex reader : readers) {
        network_.add_arc(alive, reader, FlowNetwork::kInfinite);
      }
    }
  }

  const Problem& problem_;
  NodeId node_;
  std::vector<bool> earlier_;  // ancestors of the node
  std::vector<bool> later_;    // the node and its descendants
  FlowNetwork network_;
  std::vector<FlowNetwork::Vertex> vertex_;
  Bytes always_ = 0;  // storages alive in every state in which the node can run
};

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
  return StateNetwork(problem, node).solve(deadline);
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
