// Puts the plans of several processes into one file: workers of a server that learn at once. Cold.
#include <algorithm>
#include <cerrno>
#include <limits>
#include <vector>

#include "src/base/tuning.h"
#include "src/follow/steps.h"
#include "src/io/plan_file.h"

namespace memo {
namespace {

// True if the loop of `b`, begun anywhere in it, is that of `a`. By Knuth, Morris and Pratt, since a
// loop of equal blocks is to be no quadratic matter.
bool is_rotation(const Schedule& a, const Schedule& b) {
  std::vector<std::uint32_t> border(a.count);
  for (std::uint32_t i = 1, length = 0; i < a.count; ++i) {
    while (length != 0 && a.steps[i].size != a.steps[length].size) {
      length = border[length - 1];
    }
    length += a.steps[i].size == a.steps[length].size ? 1 : 0;
    border[i] = length;
  }
  std::uint32_t matched = 0;
  for (std::uint64_t i = 0; matched < a.count && i < 2 * std::uint64_t{b.count}; ++i) {
    const std::uint64_t size = b.steps[i % b.count].size;
    while (matched != 0 && a.steps[matched].size != size) {
      matched = border[matched - 1];
    }
    matched += a.steps[matched].size == size ? 1 : 0;
  }
  return matched == a.count;
}

bool are_same_steps(const Schedule& a, const Schedule& b) {
  return std::equal(a.steps, a.steps + a.count, b.steps,
                    [](const Step& x, const Step& y) { return x.size == y.size; });
}

// Of the same loop; how it is laid out does not matter.
bool are_alike(const SavedPlan& a, const SavedPlan& b) {
  const Schedule& x = *a.schedule;
  const Schedule& y = *b.schedule;
  if (x.count != y.count || a.iteration != b.iteration ||
      (x.symbolic == nullptr) != (y.symbolic == nullptr)) {
    return false;
  }
  return x.symbolic != nullptr ? are_same_steps(x, y) : is_rotation(x, y);
}

// Of two plans of a loop the lower one; then those that are only in the file.
std::vector<SavedPlan> merged(std::span<const SavedPlan> ours, std::span<const SavedPlan> theirs) {
  std::vector<SavedPlan> all(ours.begin(), ours.end());
  for (const SavedPlan& plan : theirs) {
    const auto same = std::find_if(all.begin(), all.end(),
                                   [&](const SavedPlan& own) { return are_alike(own, plan); });
    if (same == all.end()) {
      all.push_back(plan);
    } else if (plan.schedule->height < same->schedule->height) {
      *same = plan;
    }
  }
  all.resize(std::min<std::size_t>(all.size(), tuning::kMaxPlans));
  return all;
}

}  // namespace

bool merge_plans(const RecursionGuard& guard, const char* path, std::span<const SavedPlan> plans,
                 Trust trust) noexcept {
  LoadedPlan there[tuning::kMaxPlans];
  std::string_view problem;
  const std::uint32_t count =
      load_plans(guard, path, std::numeric_limits<std::uint64_t>::max(), there, &problem, trust);
  SavedPlan theirs[tuning::kMaxPlans];
  for (std::uint32_t i = 0; i < count; ++i) {
    theirs[i] = {there[i].plan.get(), there[i].iteration};
  }
  try {
    return save_plans(guard, path, merged(plans, {theirs, count}));
  } catch (...) {
    errno = ENOMEM;
    return false;
  }
}

}  // namespace memo
