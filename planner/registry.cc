// Expands planners.def to the registry and wraps each strategy: checks, clock, capacity, and no
// exception past here. Cold.
#include <algorithm>
#include <exception>
#include <limits>
#include <new>

#include "dsa/planner.h"
#include "dsa/validate.h"
#include "planner/strategies.h"

namespace dsa {
namespace {

// Turning the offsets into a plan takes up to this share of the time that building the model took,
// on any machine and under any load: time that the strategy must leave.
constexpr double kReserve = 1;

Outcome run(Strategy strategy, const Problem& problem, const Options& options,
            Budget::Clock::time_point start) {
  if (!validate(problem)) {
    return {.reason = "the problem is not well formed (see dsa::validate)"};
  }
  Outcome outcome;
  const Model model(problem);
  Options usable = options;
  usable.seconds -= kReserve * Budget::seconds_since(start);
  const Budget budget(usable, model.bound, start);
  outcome.lower_bound = model.bound;
  if (options.capacity && *options.capacity < model.bound) {
    outcome.infeasible = true;
    outcome.reason = "the capacity is below the lower bound";
    return outcome;
  }
  Found found = strategy(model, budget);
  outcome.infeasible = found.infeasible;
  outcome.reason = found.reason;
  if (!found.offsets) {
    return outcome;
  }
  Plan plan = model.plan_of(*found.offsets);
  if (options.capacity && plan.height > *options.capacity) {
    outcome.infeasible = found.optimal;
    outcome.reason = found.optimal ? "proved: there is no plan within the capacity"
                                   : "the plan found exceeds the capacity";
    return outcome;
  }
  outcome.optimal = found.optimal || plan.height == model.bound;
  outcome.reason = {};
  outcome.plan = std::move(plan);
  return outcome;
}

template <Strategy strategy>
Outcome guarded(const Problem& problem, const Options& options) {
  const auto start = Budget::Clock::now();
  Outcome outcome;
  try {
    outcome = run(strategy, problem, options, start);
  } catch (const std::exception&) {
    outcome = {.reason = "out of memory while planning"};
  }
  outcome.seconds = std::chrono::duration<double>(Budget::Clock::now() - start).count();
  return outcome;
}

constexpr Planner kPlanners[] = {
#define ROW(name, function, exact, source) {name, exact, source, &guarded<function>},
#include "planner/planners.def"
#undef ROW
};

}  // namespace

std::span<const Planner> planners() {
  return kPlanners;
}

const Planner* find_planner(std::string_view name) {
  const auto* row = std::find_if(std::begin(kPlanners), std::end(kPlanners),
                                 [name](const Planner& planner) { return planner.name == name; });
  return row == std::end(kPlanners) ? nullptr : row;
}

Outcome plan(const Problem& problem, const Options& options) {
  return guarded<portfolio>(problem, options);
}

Bytes lower_bound(const Problem& problem) {
  // Sums of more than 63 bits have no model.
  return validate(problem) ? Model(problem).bound : std::numeric_limits<Bytes>::max();
}

Bytes height_of(const Model& model, const Offsets& offsets) {
  Bytes height = model.resting_height;
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    height = std::max(height, offsets[i] + model.items[i].size);
  }
  return height;
}

}  // namespace dsa
