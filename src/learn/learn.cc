// See learn.h. Cold.
#include "src/learn/learn.h"

#include <algorithm>
#include <atomic>
#include <optional>
#include <utility>
#include <vector>

#include "dsa/planner.h"
#include "dsa/validate.h"
#include "src/base/check.h"
#include "src/base/units.h"
#include "src/learn/find_period.h"
#include "src/learn/lifetimes.h"
#include "src/learn/symbolic.h"

namespace memo {
namespace {

std::optional<Period> period_of(std::span<const Allocation> stream, const LearnOptions& options) {
  if (!options.marks.empty()) {
    if (const auto told = find_period_told(stream, options.marks)) {
      return told;
    }
  }
  std::optional<Period> found;
  if (!options.only_trial) {
    found = find_period(stream, options.min_run);
  }
  if (!found && options.trial_copies != 0) {
    found = find_period_to_try(stream, options.trial_length, options.trial_copies, options.min_run);
  }
  return found;
}

std::uint64_t whole_granules(dsa::Bytes height) {
  return bytes_of(granules_of(static_cast<std::uint64_t>(height)));
}

Plan make_plan(std::span<const Allocation> stream, const PlanInput& input, const dsa::Plan& plan,
               double seconds) {
  MEMO_DCHECK(plan.offsets.size() == input.step_of.size());
  const std::uint32_t length = input.period.length;
  std::vector<Step> steps(std::size_t{length} * input.period.unroll);
  const std::size_t newest = (stream.size() - input.period.first) / length - 1;
  const auto cycle = stream.subspan(input.period.first + newest * length);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const Allocation& block = cycle[i % length];
    steps[i] = {block.size, kUnplanned, block.site, block.alignment_log2,
                input.lives[i % length].steps};
  }
  for (std::size_t i = 0; i < input.step_of.size(); ++i) {
    Step& step = steps[input.step_of[i]];
    step.offset = static_cast<std::uint64_t>(plan.offsets[i]);
    MEMO_DCHECK(step.offset + step.size <= static_cast<std::uint64_t>(plan.height));
  }
  const std::uint64_t height = whole_granules(plan.height);
  return Plan::copy_of({.steps = steps.data(),
                        .count = static_cast<std::uint32_t>(steps.size()),
                        .height = height,
                        .lower_bound = input.lower_bound,
                        .plan_seconds = seconds,
                        .lowest = whole_granules(dsa::lower_bound(input.problem)) >= height});
}

// The plan of the planner that the options name, if it is valid.
std::optional<dsa::Plan> plan_within(const dsa::Problem& problem, const LearnOptions& options,
                                     double& seconds) {
  dsa::Options limits;
  limits.seconds = options.plan_milliseconds / 1000.0;
  const dsa::Planner* planner = dsa::find_planner(options.planner);
  dsa::Outcome outcome =
      planner != nullptr ? planner->run(problem, limits) : dsa::plan(problem, limits);
  seconds = outcome.seconds;
  if (!outcome.plan || !dsa::validate(problem, *outcome.plan)) {
    return std::nullopt;
  }
  return std::move(outcome.plan);
}

Plan plan_fixed(std::span<const Allocation> stream, const Period& period,
                const LearnOptions& options, Period* found) {
  const PlanInput input = plan_input(stream, period);
  if (input.problem.buffers.empty()) {
    return {};
  }
  double seconds = 0;
  const std::optional<dsa::Plan> plan = plan_within(input.problem, options, seconds);
  if (!plan) {
    return {};
  }
  if (found != nullptr) {
    *found = input.period;
  }
  return make_plan(stream, input, *plan, seconds);
}

// The parametric plan of `rules`, with `cycle` as its example, whose planned steps are the
// problem's buffers and lie where `plan` says. Empty where nothing is planned or there is no
// memory.
Plan make_parametric(std::span<const SymbolicStep> rules, std::uint64_t least,
                     std::vector<Step> cycle, const dsa::Problem& problem, const dsa::Plan& plan,
                     double seconds) {
  std::vector<std::uint32_t> step_of;
  for (std::size_t i = 0; i < cycle.size(); ++i) {
    if (cycle[i].offset != kUnplanned) {
      cycle[i].offset = static_cast<std::uint64_t>(plan.offsets[step_of.size()]);
      step_of.push_back(static_cast<std::uint32_t>(i));
    }
  }
  if (step_of.empty()) {
    return {};
  }
  MEMO_DCHECK(step_of.size() == plan.offsets.size());
  std::vector<Support> pairs = supports(problem, plan, step_of);
  pairs.reserve(1);  // none is not the same as not yet made: SymbolicPlan::complete()
  const SymbolicPlan symbolic{rules.data(), static_cast<std::uint32_t>(rules.size()), pairs.data(),
                              static_cast<std::uint32_t>(pairs.size()), least};
  return Plan::copy_of({.steps = cycle.data(),
                        .count = static_cast<std::uint32_t>(cycle.size()),
                        .height = whole_granules(plan.height),
                        .lower_bound = static_cast<std::uint64_t>(dsa::lower_bound(problem)),
                        .plan_seconds = seconds,
                        .lowest = true,
                        .symbolic = &symbolic});
}

// The parametric plan, with the largest iteration learned as its example.
Plan plan_symbolic(std::span<const Allocation> stream, const SymbolicInput& input,
                   const LearnOptions& options) {
  std::vector<Step> cycle;
  for (const SymbolicStep& step : input.steps) {
    cycle.push_back({step.rule.bytes(stream[input.reference].size), step.planned ? 0 : kUnplanned,
                     step.site, step.alignment_log2, step.lifetime, step.elastic});
  }
  const dsa::Problem problem = problem_of(cycle);
  double seconds = 0;
  const std::optional<dsa::Plan> plan = plan_within(problem, options, seconds);
  return plan ? make_parametric(input.steps, options.least_bytes, std::move(cycle), problem, *plan,
                                seconds)
              : Plan();
}

// True if step `i` can be planned for: the rule gives its size, and it dies within its iteration.
bool sound(const Schedule& example, std::uint32_t i) {
  const Step& step = example.steps[i];
  return step.size == example.symbolic->steps[i].rule.bytes(example.steps[0].size) &&
         (step.offset == kUnplanned ||
          (step.lifetime != 0 && step.lifetime <= example.count - i && step.alignment_log2 < 47));
}

Plan restore_symbolic(const Schedule& example) {
  dsa::Plan plan;
  for (std::uint32_t i = 0; i < example.count; ++i) {
    const Step& step = example.steps[i];
    if (!sound(example, i)) {
      return {};
    }
    if (step.offset != kUnplanned) {
      const std::uint64_t bytes = whole_granules(static_cast<dsa::Bytes>(step.size));
      plan.offsets.push_back(static_cast<dsa::Offset>(step.offset));
      plan.height = std::max(plan.height, static_cast<dsa::Bytes>(step.offset + bytes));
    }
  }
  const std::span<const Step> cycle(example.steps, example.count);
  const dsa::Problem problem = problem_of(cycle);
  const SymbolicPlan& rules = *example.symbolic;
  return dsa::validate(problem, plan)
             ? make_parametric({rules.steps, rules.count}, rules.least,
                               {cycle.begin(), cycle.end()}, problem, plan, 0)
             : Plan();
}

// True if every planned step has a lifetime.
bool known_lifetimes(const Schedule& schedule) {
  return std::all_of(schedule.steps, schedule.steps + schedule.count, [](const Step& step) {
    return step.offset == kUnplanned || step.lifetime != 0;
  });
}

Plan search_lower(const Schedule& schedule, double seconds, const std::atomic<bool>* stop) {
  const dsa::Problem problem = problem_of({schedule.steps, schedule.count});
  dsa::Options limits;
  limits.seconds = seconds;
  limits.stop = stop;
  const dsa::Outcome outcome = dsa::plan(problem, limits);
  if (!outcome.plan || whole_granules(outcome.plan->height) >= schedule.height ||
      !dsa::validate(problem, *outcome.plan)) {
    return {};
  }
  std::vector<Step> steps(schedule.steps, schedule.steps + schedule.count);
  std::size_t planned = 0;
  for (Step& step : steps) {
    if (step.offset != kUnplanned) {
      step.offset = static_cast<std::uint64_t>(outcome.plan->offsets[planned++]);
    }
  }
  return Plan::copy_of({.steps = steps.data(),
                        .count = schedule.count,
                        .height = whole_granules(outcome.plan->height),
                        .lower_bound = schedule.lower_bound,
                        .plan_seconds = outcome.seconds,
                        .lowest = true});
}

}  // namespace

Plan learn(const RecursionGuard&, std::span<const Allocation> stream, const LearnOptions& options,
           Period* period) noexcept {
  try {
    const std::optional<Period> found = period_of(stream, options);
    return found ? plan_fixed(stream, *found, options, period) : Plan();
  } catch (...) {
    return {};  // no memory for learning: the program goes on without a schedule
  }
}

Plan learn_symbolic(const RecursionGuard&, std::span<const Allocation> stream,
                    const LearnOptions& options, Period* period) noexcept {
  try {
    const std::optional<SymbolicInput> input = symbolic_input(stream);
    if (!input) {
      return {};
    }
    if (period != nullptr) {
      *period = input->period;
    }
    return plan_symbolic(stream, *input, options);
  } catch (...) {
    return {};  // no memory for learning: the program goes on without a schedule
  }
}

Plan restore(const RecursionGuard&, const Schedule& example) noexcept {
  try {
    return restore_symbolic(example);
  } catch (...) {
    return {};  // no memory for it: the program learns again
  }
}

Plan improve(const RecursionGuard&, const Schedule& schedule, double seconds,
             const std::atomic<bool>* stop) noexcept {
  try {
    return !schedule.lowest && known_lifetimes(schedule) ? search_lower(schedule, seconds, stop)
                                                         : Plan();
  } catch (...) {
    return {};  // no memory for the search: the plan at hand stays
  }
}

bool is_planner(std::string_view name) noexcept {
  return dsa::find_planner(name) != nullptr;
}

}  // namespace memo
