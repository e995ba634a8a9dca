// Reads graphs and writes orders (docs/file-formats.md). Cold; no output of its own.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "dsa/problem.h"
#include "schedule/graph.h"
#include "schedule/schedule.h"

namespace schedule {

// What is wrong with a graph and where. `line` counts from 1; 0 where the file has no single place
// for it.
struct GraphError {
  std::size_t line = 0;
  std::string reason;  // names the node or the tensor, and says what to do
};

// The graph, or the first error: malformed JSON, missing fields, duplicate names,
// missing or negative sizes, tensors that nobody makes or nobody uses, cycles, an order that cannot
// be run. Source: docs/file-formats.md.
std::optional<Graph> read_graph(std::string_view text, GraphError& error);

// The order by node names, the peaks and, where a plan is given, an offset for each planned tensor.
// `plan` belongs to placement(graph, outcome.order, coalesce).
std::string write_order(const Graph& graph, const Outcome& outcome, bool coalesce,
                        const dsa::Plan* plan);

}  // namespace schedule
