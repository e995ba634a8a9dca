// Door 1, the only way from the hot side to learning: a thread's stream in, an immutable plan
// out. Cold: allocates and may plan for `plan_milliseconds`; the recursion guard proves that its
// own allocations do not come back to the engine. Never throws.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <string_view>

#include "src/follow/plan.h"
#include "src/learn/period.h"
#include "src/trace/event.h"

namespace memo {

class RecursionGuard;

struct LearnOptions {
  std::string_view planner = "portfolio";  // a name from `memomalloc planners`; unknown: portfolio
  std::uint32_t plan_milliseconds = 20;    // most time for planning
  std::uint32_t min_run = 0;               // calls that must have repeated: Repeat::required()
  // Where no period is sure: the least calls of a loop that is tried, and its copies; 0: none is.
  std::uint32_t trial_length = 0;
  std::uint32_t trial_copies = 0;
  bool only_trial = false;        // too few calls have matched for a period to be sure
  std::uint64_t least_bytes = 0;  // smaller blocks are not in the stream
  // Allocation counts at which the host began iterations.
  std::span<const std::uint32_t> marks = {};
};

// The plan of the stream's end, accepted by dsa::validate, or an empty one: no period, nothing to
// plan, no plan in time, no memory. If `period` is not null, it gets the period found. The step of
// the allocation that comes next after the stream is (stream.size() - period->first) % plan->count.
Plan learn(const RecursionGuard&, std::span<const Allocation> stream, const LearnOptions& options,
           Period* period = nullptr) noexcept;

// The same for iterations whose sizes change: a parametric plan, or an empty one.
Plan learn_symbolic(const RecursionGuard&, std::span<const Allocation> stream,
                    const LearnOptions& options, Period* period = nullptr) noexcept;

// The parametric plan that `example`, from a plan file, is an example of. Lifetimes and offsets are
// believed only where no two steps alive at once overlap, sizes where the rules give them; which
// step lies on which, height and bound are computed again. Empty if it is refused, or no memory.
Plan restore(const RecursionGuard&, const Schedule& example) noexcept;

// The same steps placed lower than in `schedule` after a search of at most `seconds`, or until
// `*stop`, or an empty plan: it is at the bound, none was found, a lifetime is unknown, the plan is
// parametric, no memory.
Plan improve(const RecursionGuard&, const Schedule& schedule, double seconds,
             const std::atomic<bool>* stop = nullptr) noexcept;

// True for what LearnOptions::planner may name.
bool is_planner(std::string_view name) noexcept;

}  // namespace memo
