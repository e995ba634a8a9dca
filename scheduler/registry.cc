// The public entry: strategies by name, and the frame around each run.
#include "schedule/schedule.h"
#include "scheduler/cuts.h"
#include "scheduler/part.h"
#include "scheduler/strategies.h"

namespace schedule {
namespace {

struct Registry {
  std::vector<Strategy> strategies;
  std::vector<Run> runs;

  // The rows of a solver that is not linked have no function.
  Registry() {
    const auto add = [this](const Strategy& strategy, Run run) {
      if (run != nullptr) {
        strategies.push_back(strategy);
        runs.push_back(run);
      }
    };
#define ROW(name, function, exact, source) add({name, exact, source}, function);
#define SOLVER_ROW ROW
#include "scheduler/strategies.def"
#undef SOLVER_ROW
#undef ROW
  }
};

const Registry& registry() {
  static const Registry kRegistry;
  return kRegistry;
}

}  // namespace

std::span<const Strategy> strategies() {
  return registry().strategies;
}

const Strategy* find_strategy(std::string_view name) {
  for (const Strategy& strategy : strategies()) {
    if (strategy.name == name) {
      return &strategy;
    }
  }
  return nullptr;
}

Outcome schedule(const Graph& graph, std::string_view strategy, const Options& options) {
  const auto start = std::chrono::steady_clock::now();
  const Problem problem = make_problem(graph, options.coalesce);
  Incumbent incumbent(problem, given_order(problem));
  incumbent.progress = options.progress;
  Outcome outcome;
  outcome.framework_peak = incumbent.peak();
  incumbent.raise_bound(bound_by_operators(problem));
  Search search{problem, incumbent, Deadline(options.seconds, options.stop), options.seed};
  registry().runs[static_cast<std::size_t>(find_strategy(strategy) - strategies().data())](search);
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
