// Whether a graph makes sense beyond its syntax. Cold.
#pragma once

#include <string>

#include "schedule/graph.h"

namespace schedule {

struct Unsound {
  std::string reason;  // empty: the graph is sound
  std::string name;    // of the node or tensor at fault
  bool node = false;   // it is a node
};

// Each tensor has one maker (or is resident, and has none unless an alias) and at least one user;
// aliases and overwrites fit; no cycle; the nodes stand in an order that can be run; sizes add up
// without overflow.
Unsound check_graph(const Graph& graph);

}  // namespace schedule
