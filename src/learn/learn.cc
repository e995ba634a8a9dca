// See learn.h. Cold.
#include "src/learn/learn.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>
#include <optional>

#include "dsa/planner.h"
#include "dsa/validate.h"
#include "src/base/message.h"
#include "src/learn/lifetimes.h"

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
  return schedule;
}

const Schedule* plan_schedule(std::span<const Allocation> stream, const Period& period,
                              const LearnOptions& options, Period* found) {
  const PlanInput input = plan_input(stream, period);
  if (input.problem.buffers.empty()) {
    return nullptr;
  }
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
  const dsa::Outcome outcome =
      planner != nullptr ? planner->run(input.problem, limits) : dsa::plan(input.problem, limits);
  if (!outcome.plan || !dsa::validate(input.problem, *outcome.plan)) {
    return nullptr;
  }
  if (found != nullptr) {
    *found = input.period;
  }
  return make_schedule(stream, input, *outcome.plan, outcome.seconds);
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
  if (dsa::lower_bound(problem) >= static_cast<dsa::Bytes>(schedule.height)) {
    return nullptr;
  }
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

const Schedule* improve(const RecursionGuard&, const Schedule& schedule, double seconds) noexcept {
  try {
    return known_lifetimes(schedule) ? search_lower(schedule, seconds) : nullptr;
  } catch (...) {
    return nullptr;  // no memory for the search: the plan at hand stays
  }
}

void discard(const Schedule* schedule) noexcept {
  // The schedule is at the beginning of the piece that malloc gave.
  std::free(const_cast<Schedule*>(schedule));
}

}  // namespace memo
