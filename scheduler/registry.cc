// The public entry: strategies by name, and the frame around each run.
#include <array>

#include "schedule/schedule.h"
#include "scheduler/strategies.h"

namespace schedule {
namespace {

constexpr std::array kStrategies{
#define ROW(name, function, exact, source) Strategy{name, exact, source},
#include "scheduler/strategies.def"
#undef ROW
};

constexpr std::array<Run, kStrategies.size()> kRuns{
#define ROW(name, function, exact, source) function,
#include "scheduler/strategies.def"
#undef ROW
};

}  // namespace

std::span<const Strategy> strategies() {
  return kStrategies;
}

const Strategy* find_strategy(std::string_view name) {
  for (const Strategy& strategy : kStrategies) {
    if (strategy.name == name) {
      return &strategy;
    }
  }
  return nullptr;
}

Outcome schedule(const Graph& graph, std::string_view strategy, const Options& options) {
  const auto start = std::chrono::steady_clock::now();
  const Problem problem = make_problem(graph, options.coalesce);
  Order given(graph.nodes.size());
  for (std::size_t i = 0; i < given.size(); ++i) {
    given[i] = static_cast<NodeId>(i);
  }
  Incumbent incumbent(problem, given);
  incumbent.progress = options.progress;
  Outcome outcome;
  outcome.framework_peak = incumbent.peak();
  Search search{problem, incumbent, Deadline(options.seconds, options.stop), options.seed};
  kRuns[static_cast<std::size_t>(find_strategy(strategy) - kStrategies.data())](search);
  outcome.order = incumbent.order();
  outcome.peak = incumbent.peak();
  outcome.lower_bound = incumbent.bound();
  outcome.optimal = incumbent.closed();
  outcome.found_by = incumbent.found_by();
  outcome.plan = incumbent.plan;
  outcome.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return outcome;
}

}  // namespace schedule
