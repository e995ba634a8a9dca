// See learn.h. Cold.
#include "src/learn/learn.h"

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

// A schedule and its steps lie in one piece of memory, so that discarding it is one free.
const Schedule* make_schedule(std::span<const Allocation> stream, const PlanInput& input,
                              const dsa::Plan& plan, double seconds) {
  const std::size_t count = std::size_t{input.period.length} * input.period.unroll;
  static_assert(sizeof(Schedule) % alignof(Step) == 0);
  auto* schedule = static_cast<Schedule*>(std::malloc(sizeof(Schedule) + count * sizeof(Step)));
  if (schedule == nullptr) {
    return nullptr;
  }
  auto* steps = reinterpret_cast<Step*>(schedule + 1);
  const std::size_t newest = (stream.size() - input.period.first) / input.period.length - 1;
  const auto cycle = stream.subspan(input.period.first + newest * input.period.length);
  for (std::size_t i = 0; i < count; ++i) {
    const Allocation& block = cycle[i % input.period.length];
    new (&steps[i]) Step{block.size, kUnplanned, block.site, block.alignment_log2};
  }
  for (std::size_t i = 0; i < input.step_of.size(); ++i) {
    steps[input.step_of[i]].offset = static_cast<std::uint64_t>(plan.offsets[i]);
  }
  const std::uint64_t height = static_cast<std::uint64_t>(plan.height);
  return new (schedule)
      Schedule{steps, static_cast<std::uint32_t>(count),
               (height + kGranule - 1) / kGranule * kGranule, input.lower_bound, seconds};
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

void discard(const Schedule* schedule) noexcept {
  // The schedule is at the beginning of the piece that malloc gave.
  std::free(const_cast<Schedule*>(schedule));
}

}  // namespace memo
