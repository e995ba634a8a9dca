// From an order to the placement problem: positions become times, storages become buffers.
#include <algorithm>

#include "schedule/schedule.h"
#include "scheduler/index.h"
#include "scheduler/problem.h"

namespace schedule {
namespace {

// Merges tensors into buffers while the order is gone through.
class Placer {
 public:
  Placer(const Graph& graph, const Order& order, bool coalesce)
      : graph_(graph),
        coalesce_(coalesce),
        owners_(owners_of(graph)),
        buffer_(graph.tensors.size(), kNone),
        last_(graph.tensors.size(), -1) {
    for (std::size_t i = 0; i < order.size(); ++i) {
      const Node& node = graph.nodes[at(order[i])];
      for (const auto* list : {&node.inputs, &node.outputs}) {
        for (const TensorId t : *list) {
          last_[at(root(t))] = static_cast<dsa::Time>(i);
        }
      }
    }
    for (std::size_t t = 0; t < graph.tensors.size(); ++t) {
      if (graph.tensors[t].output) {
        last_[at(root(static_cast<TensorId>(t)))] = static_cast<dsa::Time>(order.size());
      }
    }
    for (std::size_t i = 0; i < order.size(); ++i) {
      place(graph.nodes[at(order[i])], static_cast<dsa::Time>(i));
    }
  }

  Placement take() { return std::move(placement_); }

 private:
  static constexpr std::size_t kNone = ~std::size_t{0};

  TensorId root(TensorId t) const { return owners_[at(t)]; }

  void place(const Node& node, dsa::Time now) {
    const Overwrite* overwrite = coalesce_ ? best_overwrite(node, now) : nullptr;
    std::vector<TensorId> outputs = node.outputs;
    std::sort(outputs.begin(), outputs.end());  // as the strategies number storages
    for (const TensorId t : outputs) {
      const Tensor& tensor = graph_.tensors[at(t)];
      if (tensor.alias_of || is_resident(tensor) || tensor.bytes == 0) {
        continue;
      }
      const dsa::Time end = std::max(last_[at(t)], now) + 1;
      if (overwrite != nullptr && overwrite->output == t) {
        buffer_[at(t)] = buffer_[at(root(overwrite->input))];
        placement_.problem.buffers[buffer_[at(t)]].upper = end;
        placement_.owners[buffer_[at(t)]].push_back(t);
        overwrite = nullptr;
        continue;
      }
      buffer_[at(t)] = add(now, end, tensor.bytes, {t});
    }
    if (node.workspace > 0) {
      add(now, now + 1, node.workspace, {});
    }
  }

  std::size_t add(dsa::Time lower, dsa::Time upper, Bytes size, std::vector<TensorId> owners) {
    dsa::Buffer buffer;
    buffer.lower = lower;
    buffer.upper = upper;
    buffer.size = size;
    placement_.problem.buffers.push_back(std::move(buffer));
    placement_.owners.push_back(std::move(owners));
    return placement_.owners.size() - 1;
  }

  // The pair that saves most, as the scheduler counts it: at most one per node.
  const Overwrite* best_overwrite(const Node& node, dsa::Time now) const {
    const Overwrite* best = nullptr;
    for (const Overwrite& pair : node.overwrites) {
      const TensorId input = root(pair.input);
      const Bytes size = graph_.tensors[at(pair.output)].bytes;
      const bool possible = !graph_.tensors[at(pair.output)].alias_of && input != pair.output &&
                            buffer_[at(input)] != kNone && last_[at(input)] == now &&
                            graph_.tensors[at(input)].bytes == size;
      if (possible && (best == nullptr || size > graph_.tensors[at(best->output)].bytes)) {
        best = &pair;
      }
    }
    return best;
  }

  const Graph& graph_;
  bool coalesce_;
  std::vector<TensorId> owners_;  // per tensor: the one whose storage it uses
  Placement placement_;
  std::vector<std::size_t>
      buffer_;                   // per tensor; kNone for resident ones, aliases and not yet placed
  std::vector<dsa::Time> last_;  // per storage's tensor: the position of its last use
};

}  // namespace

Placement placement(const Graph& graph, const Order& order, bool coalesce) {
  return Placer(graph, order, coalesce).take();
}

}  // namespace schedule
