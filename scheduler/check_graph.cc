// The checks of a graph's soundness, first fault first.
#include "scheduler/check_graph.h"

#include <algorithm>

#include "scheduler/index.h"
#include "scheduler/problem.h"

namespace schedule {
namespace {

// Of all sizes together. Far from overflow wherever they are added up, and below the capacity that
// stands for infinity in cuts.
constexpr Bytes kMaxTogether = Bytes{1} << 60;

class Checker {
 public:
  explicit Checker(const Graph& graph)
      : graph_(graph),
        owners_(owners_of(graph)),
        maker_(graph.tensors.size(), -1),
        used_(graph.tensors.size()) {}

  Unsound check() {
    Unsound fault = makers();
    for (const auto step : {&Checker::aliases, &Checker::dangling, &Checker::sizes,
                            &Checker::cycles, &Checker::given_order}) {
      if (fault.reason.empty()) {
        fault = (this->*step)();
      }
    }
    return fault;
  }

 private:
  std::string quoted(TensorId t) const { return "'" + graph_.tensors[at(t)].name + "'"; }
  std::string quoted_node(NodeId n) const { return "'" + graph_.nodes[at(n)].name + "'"; }

  Unsound makers() {
    for (std::size_t n = 0; n < graph_.nodes.size(); ++n) {
      const Node& node = graph_.nodes[n];
      const std::string me = "node '" + node.name + "'";
      for (const TensorId t : node.inputs) {
        used_[at(t)] = true;
      }
      for (const TensorId t : node.outputs) {
        if (maker_[at(t)] >= 0) {
          return {me + " makes tensor " + quoted(t) + ", which node " + quoted_node(maker_[at(t)]) +
                      " makes already",
                  node.name, true};
        }
        if (is_resident(graph_.tensors[at(t)])) {
          return {me + " makes tensor " + quoted(t) + ", which is a weight or an input", node.name,
                  true};
        }
        maker_[at(t)] = static_cast<NodeId>(n);
        used_[at(t)] = true;
      }
      for (const Overwrite& pair : node.overwrites) {
        if (std::ranges::count(node.outputs, pair.output) == 0 ||
            std::ranges::count(node.inputs, pair.input) == 0) {
          return {me + " overwrites " + quoted(pair.input) + " with " + quoted(pair.output) +
                      ", which must be an input and an output of it",
                  node.name, true};
        }
      }
    }
    return {};
  }

  Unsound aliases() const {
    const auto circle = std::ranges::find(owners_, -1);
    if (circle == owners_.end()) {
      return {};
    }
    const std::string& name =
        graph_.tensors[static_cast<std::size_t>(circle - owners_.begin())].name;
    return {"tensor '" + name + "' is an alias of itself", name};
  }

  Unsound dangling() const {
    for (const Node& node : graph_.nodes) {
      for (const TensorId t : node.inputs) {
        if (maker_[at(t)] < 0 && !is_resident(graph_.tensors[at(t)])) {
          return {"node '" + node.name + "' reads tensor " + quoted(t) +
                      ", which no node makes and which is neither weight nor input",
                  node.name, true};
        }
      }
    }
    for (std::size_t t = 0; t < graph_.tensors.size(); ++t) {
      if (!used_[t] && !is_resident(graph_.tensors[t])) {
        return {"tensor '" + graph_.tensors[t].name + "' dangles: no node makes or reads it",
                graph_.tensors[t].name};
      }
    }
    return {};
  }

  Unsound sizes() const {
    Bytes sum = 0;
    const auto add = [&](Bytes bytes) {
      const bool fits = bytes <= kMaxTogether - sum;
      sum = fits ? sum + bytes : sum;
      return fits;
    };
    for (const Tensor& tensor : graph_.tensors) {
      if (!add(tensor.bytes)) {
        return {"the sizes add up to more than 2^60 bytes at tensor '" + tensor.name + "'",
                tensor.name};
      }
    }
    for (const Node& node : graph_.nodes) {
      if (!add(node.workspace)) {
        return {"the sizes add up to more than 2^60 bytes at node '" + node.name + "'", node.name,
                true};
      }
    }
    return {};
  }

  template <typename Visit>
  void for_predecessors(const Node& node, const Visit& visit) const {
    std::ranges::for_each(node.after, visit);
    for (const auto* list : {&node.inputs, &node.outputs}) {
      for (const TensorId t : *list) {
        if (list == &node.inputs && maker_[at(t)] >= 0) {
          visit(maker_[at(t)]);
        }
        const TensorId root = owners_[at(t)];
        if (root != t && maker_[at(root)] >= 0 && &graph_.nodes[at(maker_[at(root)])] != &node) {
          visit(maker_[at(root)]);
        }
      }
    }
  }

  // Runs what can be run; of what is left, follows predecessors until a node comes round again.
  Unsound cycles() const {
    const std::size_t count = graph_.nodes.size();
    std::vector<std::int32_t> waiting(count);
    std::vector<std::vector<NodeId>> succs(count);
    for (std::size_t n = 0; n < count; ++n) {
      for_predecessors(graph_.nodes[n], [&](NodeId pred) {
        succs[at(pred)].push_back(static_cast<NodeId>(n));
        ++waiting[n];
      });
    }
    std::vector<NodeId> queue;
    for (std::size_t n = 0; n < count; ++n) {
      if (waiting[n] == 0) {
        queue.push_back(static_cast<NodeId>(n));
      }
    }
    for (std::size_t head = 0; head < queue.size(); ++head) {
      for (const NodeId succ : succs[at(queue[head])]) {
        if (--waiting[at(succ)] == 0) {
          queue.push_back(succ);
        }
      }
    }
    if (queue.size() == count) {
      return {};
    }
    auto here = static_cast<NodeId>(
        std::ranges::find_if(waiting, [](std::int32_t w) { return w > 0; }) - waiting.begin());
    std::vector<bool> seen(count);
    while (!seen[at(here)]) {
      seen[at(here)] = true;
      NodeId back = here;
      for_predecessors(graph_.nodes[at(here)],
                       [&](NodeId p) { back = waiting[at(p)] > 0 ? p : back; });
      here = back;
    }
    return {"node " + quoted_node(here) + " is part of a cycle: it needs its own result",
            graph_.nodes[at(here)].name, true};
  }

  Unsound given_order() const {
    for (std::size_t n = 0; n < graph_.nodes.size(); ++n) {
      Unsound fault;
      for_predecessors(graph_.nodes[n], [&](NodeId pred) {
        if (at(pred) > n) {
          fault = {"node '" + graph_.nodes[n].name + "' stands before node " + quoted_node(pred) +
                       ", which it needs; list the nodes in an order that can be run",
                   graph_.nodes[n].name, true};
        }
      });
      if (!fault.reason.empty()) {
        return fault;
      }
    }
    return {};
  }

  const Graph& graph_;
  std::vector<TensorId> owners_;  // per tensor: the one whose storage it uses
  std::vector<NodeId> maker_;     // per tensor; -1 for none
  std::vector<bool> used_;        // per tensor: a node reads or makes it
};

}  // namespace

Unsound check_graph(const Graph& graph) {
  return Checker(graph).check();
}

}  // namespace schedule
