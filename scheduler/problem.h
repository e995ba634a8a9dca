// A graph boiled down to what the strategies need: precedence between nodes, and storages with the
// node that makes them and the nodes that read them. Views have become readers of their base's
// storage; weights and inputs are gone. Immutable once built. Cold.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "schedule/graph.h"
#include "scheduler/index.h"

namespace schedule {

using StorageId = std::int32_t;  // index into Problem::storages

inline constexpr NodeId kNoNode = -1;

// For each index a list of indices, all in one array.
struct Lists {
  std::vector<std::int32_t> starts{0};
  std::vector<std::int32_t> items;

  std::span<const std::int32_t> operator[](std::int32_t index) const {
    const auto begin = at(starts[at(index)]);
    const auto end = at(starts[at(index) + 1]);
    return {items.data() + begin, end - begin};
  }
  // Appends the next index's list.
  void push(std::span<const std::int32_t> list) {
    items.insert(items.end(), list.begin(), list.end());
    starts.push_back(static_cast<std::int32_t>(items.size()));
  }
};

Lists inverse(const Lists& lists, std::int32_t count);

struct Storage {
  Bytes bytes = 0;  // at least 1, but in a coarse problem (exact.h)
  // kNoNode: alive before the first node (in a part of a larger problem).
  NodeId producer = kNoNode;
  bool kept = false;  // alive after the last node
};

// While a node runs, its output needs no memory of its own if `input` dies there: `bytes` are
// saved.
struct Saving {
  StorageId output = 0;
  StorageId input = 0;
  Bytes bytes = 0;
};

struct Problem {
  Bytes base = 0;  // alive throughout, besides all storages
  std::vector<Storage> storages;
  std::vector<Bytes> workspace;              // per node
  std::vector<std::vector<Saving>> savings;  // per node; a node uses at most one of them
  Lists preds, succs;                        // node -> nodes, without duplicates
  Lists makes;                               // node -> storages
  Lists reads;                               // node -> storages, without those it makes
  Lists readers;                             // storage -> nodes

  std::int32_t nodes() const { return static_cast<std::int32_t>(workspace.size()); }
  const Storage& storage(StorageId s) const { return storages[at(s)]; }
};

// Alive throughout: no node makes it.
inline bool is_resident(const Tensor& tensor) {
  return tensor.kind == TensorKind::kWeight || tensor.kind == TensorKind::kInput;
}

// An order in which the nodes can run.
Order any_order(const Problem& problem);

// Per tensor, the one whose storage it uses; -1 where aliases lead round in a circle. O(tensors).
std::vector<TensorId> owners_of(const Graph& graph);

// Requires a graph that read_graph accepted, or one of the same soundness.
Problem make_problem(const Graph& graph, bool coalesce);

}  // namespace schedule
