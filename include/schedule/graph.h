// A computation graph as the scheduler sees it: operators, the tensors they read and make, and
// their sizes. Pure value types; docs/file-formats.md has the file format. Cold.
//
//   x --> [conv] --> a --> [relu] --> b --> [add] --> y
//                    |                        ^
//                    +------------------------+
//
// A tensor lives from the operator that makes it to the last one that reads it, both included:
// while `add` runs, a, b and y are alive.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace schedule {

using Bytes = std::int64_t;     // a size in bytes, never negative
using NodeId = std::int32_t;    // index into Graph::nodes
using TensorId = std::int32_t;  // index into Graph::tensors

enum class TensorKind : std::uint8_t {
  kActivation,  // made by a node, dead after its last reader
  kGradient,    // the same, marked as a gradient for reports
  kWeight,      // resident before, during and after; counted apart
  kInput,       // likewise: the caller holds it
};

struct Tensor {
  std::string name;
  Bytes bytes = 0;  // of its storage; 0 for an alias
  TensorKind kind = TensorKind::kActivation;
  std::optional<TensorId> alias_of;  // shares that tensor's storage and extends its life
  bool output = false;               // lives on when the graph has run
};

// `output` may take the storage of `input` if `input` is dead once the node has run.
struct Overwrite {
  TensorId output = 0;
  TensorId input = 0;
};

struct Node {
  std::string name;
  std::string op;  // for reports only
  std::vector<TensorId> inputs;
  std::vector<TensorId> outputs;
  std::vector<Overwrite> overwrites;
  std::vector<NodeId> after;  // control edges: these nodes run earlier
  Bytes workspace = 0;        // memory needed only while the node runs
};

// The nodes stand in the framework's own order, which is an execution order.
struct Graph {
  std::string name;
  std::vector<Tensor> tensors;
  std::vector<Node> nodes;
};

using Order = std::vector<NodeId>;  // a permutation of the nodes

}  // namespace schedule
