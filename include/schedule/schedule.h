// The scheduling library's interface: choose a strategy by name, get an order of the nodes. Cold
// and pure: no global state, no output; any number of threads may schedule at once.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dsa/problem.h"
#include "schedule/graph.h"

namespace schedule {

struct Options {
  double seconds = 10;     // most time to spend, in seconds, kept within one step of a search
  std::uint64_t seed = 1;  // equal graph, options and seed give the equal order while time suffices
  bool coalesce = false;   // element-wise outputs take the storage of inputs that die there
  const std::atomic<bool>* stop = nullptr;  // set by another thread: return the best so far
  // Told whenever the best peak or the bound moves: (strategy, peak, lower bound).
  std::function<void(std::string_view, Bytes, Bytes)> progress = {};
};

struct Outcome {
  Order order;                    // valid, and never higher than the graph's own order
  Bytes peak = 0;                 // of `order`
  Bytes framework_peak = 0;       // of the graph's own order, under the same options
  Bytes lower_bound = 0;          // no order can be lower
  bool optimal = false;           // proved: no order is lower
  double seconds = 0;             // on the calling thread's clock
  std::string found_by;           // the strategy whose order this is
  std::optional<dsa::Plan> plan;  // of placement(graph, order), if the strategy places as well
};

// A row of the registry (scheduler/strategies.def).
struct Strategy {
  std::string_view name;    // as users write it
  bool exact = false;       // finds the optimum, given time
  std::string_view source;  // paper and section, or the argument's place
};

std::span<const Strategy> strategies();
const Strategy* find_strategy(std::string_view name);  // nullptr if there is none of that name

// Schedules with the named strategy; requires that find_strategy knows it.
Outcome schedule(const Graph& graph, std::string_view strategy, const Options& options);

// Which tensors share a buffer of the placement problem.
struct Placement {
  dsa::Problem problem;                       // lifetimes are positions in the order
  std::vector<std::vector<TensorId>> owners;  // per buffer; empty for a node's workspace
};

// The placement problem of an order: a buffer for each storage of at least one byte that is not
// resident, one for each workspace, and with `coalesce` one for a chain of overwritten tensors. Its
// lower bound is the order's peak. Requires validate(graph, order).
Placement placement(const Graph& graph, const Order& order, bool coalesce = false);

}  // namespace schedule
