// The judge of an order: replays it on the graph itself, with plain maps from names' indices.
#include "schedule/validate.h"
#include "scheduler/index.h"

#include <algorithm>

namespace schedule {
namespace {

// One replay. A storage is named by the tensor that owns it.
class Replay {
 public:
  Replay(const Graph& graph, bool coalesce)
      : graph_(graph),
        coalesce_(coalesce),
        owners_(graph.tensors.size(), -1),
        available_(graph.tensors.size()),
        alive_(graph.tensors.size()),
        pinned_(graph.tensors.size()),
        users_left_(graph.tensors.size()),
        done_(graph.nodes.size()) {
    for (std::size_t i = 0; i < graph.tensors.size(); ++i) {
      find_owner(static_cast<TensorId>(i));
    }
    for (std::size_t i = 0; i < graph.tensors.size(); ++i) {
      const auto id = static_cast<TensorId>(i);
      const Tensor& tensor = graph.tensors[i];
      available_[i] = held(id);
      if (tensor.output) {
        pinned_[at(owner(id))] = true;
      }
    }
    for (const Node& node : graph.nodes) {
      for (const TensorId owner : touched(node)) {
        ++users_left_[at(owner)];
      }
    }
  }

  // Runs one node; an empty string if it may run now.
  std::string step(NodeId id, Verdict& verdict) {
    const Node& node = graph_.nodes[at(id)];
    for (const NodeId before : node.after) {
      if (!done_[at(before)]) {
        return "node '" + node.name + "' runs before '" + graph_.nodes[at(before)].name +
               "', which it must follow";
      }
    }
    for (const TensorId input : node.inputs) {
      if (!available_[at(input)]) {
        return "node '" + node.name + "' reads '" + graph_.tensors[at(input)].name +
               "' before it is made";
      }
    }
    Bytes fresh = node.workspace;
    for (const TensorId output : node.outputs) {
      available_[at(output)] = true;
      if (owner(output) == output && !held(output)) {
        alive_[at(output)] = true;
        fresh += size(output);
      }
    }
    for (const TensorId output : node.outputs) {
      if (!available_[at(owner(output))]) {
        return "node '" + node.name + "' makes a view of '" +
               graph_.tensors[at(owner(output))].name + "' before that is made";
      }
    }
    const Bytes during = level_ + fresh - (coalesce_ ? saved(node) : 0);
    if (during > verdict.peak || verdict.peak_node < 0) {
      verdict.peak = std::max(verdict.peak, during);
      verdict.peak_node = id;
    }
    level_ += fresh - node.workspace;
    done_[at(id)] = true;
    for (const TensorId owner : touched(node)) {
      if (--users_left_[at(owner)] == 0 && !pinned_[at(owner)] && alive_[at(owner)]) {
        alive_[at(owner)] = false;
        level_ -= size(owner);
      }
    }
    return {};
  }

 private:
  Bytes size(TensorId t) const { return graph_.tensors[at(t)].bytes; }
  // Walks to the storage, or to a tensor whose owner is known, and tells all on the way.
  void find_owner(TensorId t) {
    std::vector<TensorId> way;
    while (owner(t) < 0) {
      way.push_back(t);
      const auto& base = graph_.tensors[at(t)].alias_of;
      if (!base) {
        owners_[at(t)] = t;
      }
      t = base.value_or(t);
    }
    for (const TensorId alias : way) {
      owners_[at(alias)] = owner(t);
    }
  }
  bool held(TensorId t) const {
    const TensorKind kind = graph_.tensors[at(t)].kind;
    return kind == TensorKind::kWeight || kind == TensorKind::kInput;
  }
  TensorId owner(TensorId t) const { return owners_[at(t)]; }
  // The storages that a node reads or makes, each once.
  std::vector<TensorId> touched(const Node& node) const {
    std::vector<TensorId> owners;
    for (const auto* list : {&node.inputs, &node.outputs}) {
      for (const TensorId t : *list) {
        owners.push_back(owner(t));
      }
    }
    std::ranges::sort(owners);
    const auto [first, last] = std::ranges::unique(owners);
    owners.erase(first, last);
    return owners;
  }
  // The largest output that takes the place of an input which nobody else needs any more.
  Bytes saved(const Node& node) const {
    Bytes best = 0;
    for (const Overwrite& pair : node.overwrites) {
      const TensorId victim = owner(pair.input);
      if (owner(pair.output) == pair.output && victim != pair.output && alive_[at(victim)] &&
          !pinned_[at(victim)] && size(victim) == size(pair.output) &&
          users_left_[at(victim)] == 1) {
        best = std::max(best, size(pair.output));
      }
    }
    return best;
  }

  const Graph& graph_;
  bool coalesce_;
  std::vector<TensorId> owners_;  // per tensor, the one whose storage it uses
  Bytes level_ = 0;
  std::vector<bool> available_;  // per tensor
  std::vector<bool> alive_;      // per storage: it takes memory now
  std::vector<bool> pinned_;     // per storage: one of the graph's outputs
  std::vector<int> users_left_;  // per storage: nodes that have yet to run
  std::vector<bool> done_;       // per node
};

}  // namespace

Verdict validate(const Graph& graph, const Order& order, bool coalesce) {
  Verdict verdict;
  for (const Tensor& tensor : graph.tensors) {
    if (tensor.kind == TensorKind::kWeight || tensor.kind == TensorKind::kInput) {
      verdict.resident += tensor.alias_of ? 0 : tensor.bytes;
    }
  }
  if (order.size() != graph.nodes.size()) {
    verdict.reason = "the order has " + std::to_string(order.size()) + " nodes, the graph " +
                     std::to_string(graph.nodes.size());
    return verdict;
  }
  std::vector<bool> seen(graph.nodes.size());
  Replay replay(graph, coalesce);
  for (const NodeId id : order) {
    if (id < 0 || at(id) >= graph.nodes.size() || seen[at(id)]) {
      verdict.reason = "the order names node " + std::to_string(id) + " twice or not at all";
      return verdict;
    }
    seen[at(id)] = true;
    verdict.reason = replay.step(id, verdict);
    if (!verdict) {
      return verdict;
    }
  }
  return verdict;
}

}  // namespace schedule
