// See learn.h. Cold.
#include "src/learn/learn.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "dsa/planner.h"
#include "dsa/validate.h"
#include "src/base/message.h"
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
  return find_period(stream, options.min_run);
}

// A schedule of `count` steps, still empty; it and its steps lie in one piece of memory, so that
// discarding it is one free. nullptr where there is none.
Schedule* new_schedule(std::size_t count) {
  static_assert(sizeof(Schedule) % alignof(Step) == 0);
  auto* schedule = static_cast<Schedule*>(std::malloc(sizeof(Schedule) + count * sizeof(Step)));
  if (schedule == nullptr) {
    return nullptr;
  }
  auto* steps = reinterpret_cast<Step*>(schedule + 1);
  for (std::size_t i = 0; i < count; ++i) {
    new (&steps[i]) Step;
  }
  return new (schedule) Schedule{steps, static_cast<std::uint32_t>(count)};
}

Step* steps_of(Schedule* schedule) {
  return reinterpret_cast<Step*>(schedule + 1);
}

std::uint64_t whole_granules(dsa::Bytes height) {
  return (static_cast<std::uint64_t>(height) + kGranule - 1) / kGranule * kGranule;
}

const Schedule* make_schedule(std::span<const Allocation> stream, const PlanInput& input,
                              const dsa::Plan& plan, double seconds) {
  const std::uint32_t length = input.period.length;
  Schedule* schedule = new_schedule(std::size_t{length} * input.period.unroll);
  if (schedule == nullptr) {
    return nullptr;
  }
  Step* steps = steps_of(schedule);
  const std::size_t newest = (stream.size() - input.period.first) / length - 1;
  const auto cycle = stream.subspan(input.period.first + newest * length);
  for (std::size_t i = 0; i < schedule->count; ++i) {
    const Allocation& block = cycle[i % length];
    steps[i] = {block.size, kUnplanned, block.site, block.alignment_log2,
                input.lives[i % length].steps};
  }
  for (std::size_t i = 0; i < input.step_of.size(); ++i) {
    steps[input.step_of[i]].offset = static_cast<std::uint64_t>(plan.offsets[i]);
  }
  schedule->height = whole_granules(plan.height);
  schedule->lower_bound = input.lower_bound;
  schedule->plan_seconds = seconds;
  schedule->lowest = whole_granules(dsa::lower_bound(input.problem)) >= schedule->height;
  return schedule;
}

// The plan of the planner that the options name, if it is valid.
std::optional<dsa::Plan> plan_within(const dsa::Problem& problem, const LearnOptions& options,
                                     double& seconds) {
  dsa::Options limits;
  limits.seconds = options.plan_milliseconds / 1000.0;
  const dsa::Planner* planner = dsa::find_planner(options.planner);
  if (planner == nullptr) {
    static std::atomic<bool> said{false};
    if (!said.exchange(true)) {
      Line() << "bad value of MEMOMALLOC_PLANNER: '" << options.planner
             << "'; portfolio is used (`memomalloc planners` lists them)";
    }
  }
  dsa::Outcome outcome =
      planner != nullptr ? planner->run(problem, limits) : dsa::plan(problem, limits);
  seconds = outcome.seconds;
  if (!outcome.plan || !dsa::validate(problem, *outcome.plan)) {
    return std::nullopt;
  }
  return std::move(outcome.plan);
}

const Schedule* plan_schedule(std::span<const Allocation> stream, const Period& period,
                              const LearnOptions& options, Period* found) {
  const PlanInput input = plan_input(stream, period);
  if (input.problem.buffers.empty()) {
    return nullptr;
  }
  double seconds = 0;
  const std::optional<dsa::Plan> plan = plan_within(input.problem, options, seconds);
  if (!plan) {
    return nullptr;
  }
  if (found != nullptr) {
    *found = input.period;
  }
  return make_schedule(stream, input, *plan, seconds);
}

// The plan and its arrays lie in one piece of memory; nullptr where there is none.
const SymbolicPlan* new_symbolic(std::span<const SymbolicStep> rules,
                                 std::span<const Support> supports, std::uint64_t least) {
  static_assert(sizeof(SymbolicPlan) % alignof(SymbolicStep) == 0 &&
                sizeof(SymbolicStep) % alignof(Support) == 0);
  auto* piece = static_cast<char*>(
      std::malloc(sizeof(SymbolicPlan) + rules.size_bytes() + supports.size_bytes()));
  if (piece == nullptr) {
    return nullptr;
  }
  auto* steps = reinterpret_cast<SymbolicStep*>(piece + sizeof(SymbolicPlan));
  auto* pairs = reinterpret_cast<Support*>(piece + sizeof(SymbolicPlan) + rules.size_bytes());
  std::uninitialized_copy(rules.begin(), rules.end(), steps);
  std::uninitialized_copy(supports.begin(), supports.end(), pairs);
  return new (piece) SymbolicPlan{steps, static_cast<std::uint32_t>(rules.size()), pairs,
                                  static_cast<std::uint32_t>(supports.size()), least};
}

// The symbolic plan of `rules`, with `cycle` as its example, whose planned steps are the problem's
// buffers and lie where `plan` says. nullptr where nothing is planned or there is no memory.
Schedule* symbolic_schedule(std::span<const SymbolicStep> rules, std::uint64_t least,
                            std::span<const Step> cycle, const dsa::Problem& problem,
                            const dsa::Plan& plan) {
  std::vector<std::uint32_t> step_of;
  for (std::size_t i = 0; i < cycle.size(); ++i) {
    if (cycle[i].offset != kUnplanned) {
      step_of.push_back(static_cast<std::uint32_t>(i));
    }
  }
  Schedule* schedule = step_of.empty() ? nullptr : new_schedule(cycle.size());
  if (schedule == nullptr) {
    return nullptr;
  }
  std::copy(cycle.begin(), cycle.end(), steps_of(schedule));
  for (std::size_t i = 0; i < step_of.size(); ++i) {
    steps_of(schedule)[step_of[i]].offset = static_cast<std::uint64_t>(plan.offsets[i]);
  }
  schedule->height = whole_granules(plan.height);
  schedule->lower_bound = static_cast<std::uint64_t>(dsa::lower_bound(problem));
  schedule->lowest = true;
  schedule->symbolic = new_symbolic(rules, supports(problem, plan, step_of), least);
  if (schedule->symbolic == nullptr) {
    discard(schedule);
    return nullptr;
  }
  return schedule;
}

// A schedule for the largest iteration learned, and the symbolic plan that it is an example of.
const Schedule* plan_symbolic(std::span<const Allocation> stream, const SymbolicInput& input,
                              const LearnOptions& options) {
  std::vector<Step> cycle;
  for (const SymbolicStep& step : input.steps) {
    cycle.push_back({step.rule.bytes(stream[input.reference].size), step.planned ? 0 : kUnplanned,
                     step.site, step.alignment_log2, step.lifetime, step.elastic});
  }
  const dsa::Problem problem = problem_of(cycle);
  double seconds = 0;
  const std::optional<dsa::Plan> plan = plan_within(problem, options, seconds);
  Schedule* schedule =
      plan ? symbolic_schedule(input.steps, options.least_bytes, cycle, problem, *plan) : nullptr;
  if (schedule != nullptr) {
    schedule->plan_seconds = seconds;
  }
  return schedule;
}

// True if step `i` can be planned for: the rule gives its size, and it dies within its iteration.
bool sound(const Schedule& example, std::uint32_t i) {
  const Step& step = example.steps[i];
  return step.size == example.symbolic->steps[i].rule.bytes(example.steps[0].size) &&
         (step.offset == kUnplanned ||
          (step.lifetime != 0 && step.lifetime <= example.count - i && step.alignment_log2 < 47));
}

const Schedule* restore_symbolic(const Schedule& example) {
  dsa::Plan plan;
  for (std::uint32_t i = 0; i < example.count; ++i) {
    const Step& step = example.steps[i];
    if (!sound(example, i)) {
      return nullptr;
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
             ? symbolic_schedule({rules.steps, rules.count}, rules.least, cycle, problem, plan)
             : nullptr;
}

// True if every planned step tells how long it lives.
bool known_lifetimes(const Schedule& schedule) {
  return std::all_of(schedule.steps, schedule.steps + schedule.count, [](const Step& step) {
    return step.offset == kUnplanned || step.lifetime != 0;
  });
}

const Schedule* search_lower(const Schedule& schedule, double seconds) {
  const dsa::Problem problem = problem_of({schedule.steps, schedule.count});
  dsa::Options limits;
  limits.seconds = seconds;
  const dsa::Outcome outcome = dsa::plan(problem, limits);
  if (!outcome.plan || whole_granules(outcome.plan->height) >= schedule.height ||
      !dsa::validate(problem, *outcome.plan)) {
    return nullptr;
  }
  Schedule* lower = new_schedule(schedule.count);
  if (lower == nullptr) {
    return nullptr;
  }
  Step* steps = steps_of(lower);
  std::size_t planned = 0;
  for (std::uint32_t i = 0; i < schedule.count; ++i) {
    steps[i] = schedule.steps[i];
    if (steps[i].offset != kUnplanned) {
      steps[i].offset = static_cast<std::uint64_t>(outcome.plan->offsets[planned++]);
    }
  }
  lower->height = whole_granules(outcome.plan->height);
  lower->lower_bound = schedule.lower_bound;
  lower->plan_seconds = outcome.seconds;
  lower->lowest = true;
  return lower;
}

}  // namespace

const Schedule* learn(const RecursionGuard&, std::span<const Allocation> stream,
                      const LearnOptions& options, Period* period) noexcept {
  try {
    const std::optional<Period> found = period_of(stream, options);
    return found ? plan_schedule(stream, *found, options, period) : nullptr;
  } catch (...) {
    return nullptr;  // no memory for learning: the program goes on without a schedule
  }
}

const Schedule* learn_symbolic(const RecursionGuard&, std::span<const Allocation> stream,
                               const LearnOptions& options, Period* period) noexcept {
  try {
    const std::optional<SymbolicInput> input = symbolic_input(stream);
    if (!input) {
      return nullptr;
    }
    if (period != nullptr) {
      *period = input->period;
    }
    return plan_symbolic(stream, *input, options);
  } catch (...) {
    return nullptr;  // no memory for learning: the program goes on without a schedule
  }
}

const Schedule* restore(const RecursionGuard&, const Schedule& example) noexcept {
  try {
    return restore_symbolic(example);
  } catch (...) {
    return nullptr;  // no memory for it: the program learns anew
  }
}

const Schedule* improve(const RecursionGuard&, const Schedule& schedule, double seconds) noexcept {
  try {
    return !schedule.lowest && known_lifetimes(schedule) ? search_lower(schedule, seconds)
                                                         : nullptr;
  } catch (...) {
    return nullptr;  // no memory for the search: the plan at hand stays
  }
}

void discard(const Schedule* schedule) noexcept {
  // Schedules and symbolic plans are at the beginnings of the pieces that malloc gave.
  if (schedule != nullptr) {
    std::free(const_cast<SymbolicPlan*>(schedule->symbolic));
  }
  std::free(const_cast<Schedule*>(schedule));
}

}  // namespace memo
