// The judge of an order: replays it on the graph itself, with plain maps from names' indices.
#include "schedule/validate.h"

#include <algorithm>
#include <map>
#include <set>

namespace schedule {
namespace {

// One replay. A storage is named by the tensor that owns it.
class Replay {
 public:
  Replay(const Graph& graph, bool coalesce) : graph_(graph), coalesce_(coalesce) {
    for (std::size_t i = 0; i < graph.tensors.size(); ++i) {
      const auto id = static_cast<TensorId>(i);
      const Tensor& tensor = graph.tensors[i];
      if (held(id)) {
        available_.insert(id);
      }
      if (tensor.output) {
        pinned_.insert(owner(id));
      }
    }
    for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
      for (const TensorId owner : touched(graph.nodes[n])) {
        users_[owner].insert(static_cast<NodeId>(n));
      }
    }
  }

  // Runs one node; an empty string if it may run now.
  std::string step(NodeId id, Verdict& verdict) {
    const Node& node = graph_.nodes[static_cast<std::size_t>(id)];
    for (const NodeId before : node.after) {
      if (!done_.contains(before)) {
        return "node '" + node.name + "' runs before '" +
               graph_.nodes[static_cast<std::size_t>(before)].name + "', which it must follow";
      }
    }
    for (const TensorId input : node.inputs) {
      if (!available_.contains(input)) {
        return "node '" + node.name + "' reads '" +
               graph_.tensors[static_cast<std::size_t>(input)].name + "' before it is made";
      }
    }
    Bytes fresh = node.workspace;
    for (const TensorId output : node.outputs) {
      available_.insert(output);
      if (owner(output) == output && !held(output)) {
        alive_.insert(output);
        fresh += size(output);
      }
    }
    const Bytes during = level_ + fresh - (coalesce_ ? saved(id, node) : 0);
    if (during > verdict.peak || verdict.peak_node < 0) {
      verdict.peak = std::max(verdict.peak, during);
      verdict.peak_node = id;
    }
    level_ += fresh - node.workspace;
    done_.insert(id);
    for (const TensorId owner : touched(node)) {
      std::set<NodeId>& users = users_[owner];
      users.erase(id);
      if (users.empty() && !pinned_.contains(owner) && alive_.erase(owner) > 0) {
        level_ -= size(owner);
      }
    }
    return {};
  }

 private:
  Bytes size(TensorId t) const { return graph_.tensors[static_cast<std::size_t>(t)].bytes; }
  bool held(TensorId t) const {
    const TensorKind kind = graph_.tensors[static_cast<std::size_t>(t)].kind;
    return kind == TensorKind::kWeight || kind == TensorKind::kInput;
  }
  TensorId owner(TensorId t) const {
    const auto& base = graph_.tensors[static_cast<std::size_t>(t)].alias_of;
    return base ? owner(*base) : t;
  }
  std::set<TensorId> touched(const Node& node) const {
    std::set<TensorId> owners;
    for (const TensorId t : node.inputs) {
      owners.insert(owner(t));
    }
    for (const TensorId t : node.outputs) {
      owners.insert(owner(t));
    }
    return owners;
  }
  // The largest output that takes the place of an input which nobody needs afterwards.
  Bytes saved(NodeId id, const Node& node) {
    Bytes best = 0;
    for (const Overwrite& pair : node.overwrites) {
      const TensorId victim = owner(pair.input);
      if (owner(pair.output) == pair.output && victim != pair.output && alive_.contains(victim) &&
          !pinned_.contains(victim) && size(victim) == size(pair.output) &&
          users_[victim] == std::set<NodeId>{id}) {
        best = std::max(best, size(pair.output));
      }
    }
    return best;
  }

  const Graph& graph_;
  bool coalesce_;
  Bytes level_ = 0;
  std::set<NodeId> done_;
  std::set<TensorId> available_;
  std::set<TensorId> alive_;                    // storages that take memory now
  std::set<TensorId> pinned_;                   // storages of the graph's outputs
  std::map<TensorId, std::set<NodeId>> users_;  // storage -> nodes that have yet to run
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
  std::set<NodeId> seen;
  Replay replay(graph, coalesce);
  for (const NodeId id : order) {
    if (id < 0 || static_cast<std::size_t>(id) >= graph.nodes.size() || !seen.insert(id).second) {
      verdict.reason = "the order names node " + std::to_string(id) + " twice or not at all";
      return verdict;
    }
    verdict.reason = replay.step(id, verdict);
    if (!verdict) {
      return verdict;
    }
  }
  return verdict;
}

}  // namespace schedule
