// The judge of an order. It shares no code with any strategy: the graph itself, replayed one node
// at a time. Cold, O(E log E) in the inputs and outputs.
#pragma once

#include <string>

#include "schedule/graph.h"

namespace schedule {

// What an order costs, or why it cannot be run.
struct Verdict {
  std::string reason;     // empty: the order can be run
  Bytes peak = 0;         // most bytes alive at one node, weights and inputs not counted
  NodeId peak_node = -1;  // the first node that reaches it; -1 for an empty graph
  Bytes resident = 0;     // weights and inputs, there all the time
  explicit operator bool() const { return reason.empty(); }
};

// Checks that each node occurs once, after the makers of its inputs and after its control edges,
// and computes the peak. With `coalesce`, an output takes its overwritable input's storage wherever
// the two have the same size and the input is dead once the node has run.
Verdict validate(const Graph& graph, const Order& order, bool coalesce = false);

}  // namespace schedule
