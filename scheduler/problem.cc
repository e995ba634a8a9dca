// Builds the strategies' view of a graph, and parts of it.
#include "scheduler/problem.h"

#include <algorithm>

#include "scheduler/index.h"

namespace schedule {
namespace {

void sort_unique(std::vector<std::int32_t>& list) {
  std::sort(list.begin(), list.end());
  list.erase(std::unique(list.begin(), list.end()), list.end());
}

}  // namespace

std::vector<TensorId> owners_of(const Graph& graph) {
  constexpr TensorId kUnknown = -2;
  constexpr TensorId kOnTheWay = -1;
  std::vector<TensorId> owners(graph.tensors.size(), kUnknown);
  std::vector<TensorId> way;
  for (std::size_t i = 0; i < owners.size(); ++i) {
    auto here = static_cast<TensorId>(i);
    for (way.clear(); owners[at(here)] == kUnknown;) {
      const auto& base = graph.tensors[at(here)].alias_of;
      owners[at(here)] = base ? kOnTheWay : here;
      way.push_back(here);
      here = base.value_or(here);
    }
    for (const TensorId t : way) {
      owners[at(t)] = owners[at(here)];
    }
  }
  return owners;
}

Lists inverse(const Lists& lists, std::int32_t count) {
  Lists result;
  result.starts.assign(at(count) + 1, 0);
  for (const std::int32_t item : lists.items) {
    ++result.starts[at(item) + 1];
  }
  for (std::size_t i = 0; i < at(count); ++i) {
    result.starts[i + 1] += result.starts[i];
  }
  result.items.resize(lists.items.size());
  std::vector<std::int32_t> next(result.starts.begin(), result.starts.end() - 1);
  for (std::size_t i = 0; i + 1 < lists.starts.size(); ++i) {
    for (const std::int32_t item : lists[static_cast<std::int32_t>(i)]) {
      result.items[at(next[at(item)]++)] = static_cast<std::int32_t>(i);
    }
  }
  return result;
}

Order any_order(const Problem& problem) {
  Order order;
  std::vector<std::size_t> waiting;
  for (NodeId n = 0; n < problem.nodes(); ++n) {
    waiting.push_back(problem.preds[n].size());
    if (waiting.back() == 0) {
      order.push_back(n);
    }
  }
  for (std::size_t head = 0; head < order.size(); ++head) {
    for (const NodeId succ : problem.succs[order[head]]) {
      if (--waiting[at(succ)] == 0) {
        order.push_back(succ);
      }
    }
  }
  return order;
}

Problem make_problem(const Graph& graph, bool coalesce) {
  Problem problem;
  const std::vector<TensorId> roots = owners_of(graph);
  std::vector<NodeId> producer(graph.tensors.size(), kNoNode);
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    for (const TensorId t : graph.nodes[n].outputs) {
      producer[at(t)] = static_cast<NodeId>(n);
    }
  }
  std::vector<StorageId> storage_of(graph.tensors.size(), -1);
  for (std::size_t t = 0; t < graph.tensors.size(); ++t) {
    const Tensor& tensor = graph.tensors[t];
    if (roots[t] == static_cast<TensorId>(t) && !is_resident(tensor) && tensor.bytes > 0) {
      storage_of[t] = static_cast<StorageId>(problem.storages.size());
      problem.storages.push_back({tensor.bytes, producer[t], false});
    }
  }
  for (std::size_t t = 0; t < graph.tensors.size(); ++t) {
    storage_of[t] = storage_of[at(roots[t])];
    if (graph.tensors[t].output && storage_of[t] >= 0) {
      problem.storages[at(storage_of[t])].kept = true;
    }
  }
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    const auto self = static_cast<NodeId>(n);
    std::vector<std::int32_t> preds = node.after;
    std::vector<std::int32_t> made;
    std::vector<std::int32_t> read;
    const auto touch = [&](TensorId t) {
      for (const NodeId maker : {producer[at(t)], producer[at(roots[at(t)])]}) {
        if (maker != kNoNode && maker != self) {
          preds.push_back(maker);
        }
      }
      const StorageId s = storage_of[at(t)];
      if (s >= 0) {
        (problem.storages[at(s)].producer == self ? made : read).push_back(s);
      }
    };
    std::for_each(node.inputs.begin(), node.inputs.end(), touch);
    std::for_each(node.outputs.begin(), node.outputs.end(), touch);
    sort_unique(preds);
    sort_unique(made);
    sort_unique(read);
    problem.preds.push(preds);
    problem.makes.push(made);
    problem.reads.push(read);
    problem.workspace.push_back(node.workspace);
    problem.savings.emplace_back();
    for (const Overwrite& pair : node.overwrites) {
      const StorageId output = storage_of[at(pair.output)];
      const StorageId input = storage_of[at(pair.input)];
      if (!coalesce || output < 0 || input < 0 || output == input ||
          problem.storages[at(output)].producer != self || problem.storages[at(input)].kept ||
          problem.storages[at(output)].bytes != problem.storages[at(input)].bytes) {
        continue;
      }
      problem.savings.back().push_back({output, input, problem.storages[at(output)].bytes});
    }
  }
  problem.succs = inverse(problem.preds, problem.nodes());
  problem.readers = inverse(problem.reads, static_cast<std::int32_t>(problem.storages.size()));
  return problem;
}

}  // namespace schedule
