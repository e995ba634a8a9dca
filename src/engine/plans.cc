#include "src/engine/plans.h"

#include <utility>

#include "src/learn/learn.h"

namespace memo {

bool Plans::has_planner(std::string_view name) {
  return is_planner(name);
}

StoredPlan* Plans::add(const RecursionGuard& guard, Plan plan, std::uint32_t iteration,
                       Maker maker) {
  PlanStore& store = lanes_.shared().store;
  const std::uint32_t symbolic = plan->symbolic != nullptr ? plan->count : 0;
  StoredPlan* stored = store.add(guard, std::move(plan), iteration, maker);
  if (stored == nullptr) {
    return nullptr;
  }
  PlanStore::release(*stored);
  Counters& counters = lanes_.at(0).counters;  // any thread may add plans
  counters.plans_loaded.add_from_any();
  counters.symbolic_calls.add_from_any(symbolic);
  return stored;
}

// An explicit planner disables the background search.
bool Plans::wants_search() const {
  return lanes_.opened() &&
         lanes_.shared().options->PLANNER.value == std::string_view(Options().PLANNER.value) &&
         lanes_.shared().store.has_unsearched();
}

void Plans::search(const RecursionGuard& guard, const std::atomic<bool>* stop) {
  StoredPlan* plan = wants_search() ? lanes_.shared().store.take_unsearched() : nullptr;
  if (plan == nullptr) {
    return;
  }
  os::yield_to_others();
  plan->improve(improve(guard, *plan->made, static_cast<double>(tuning::kMaxSearchSeconds), stop));
  if (stop == nullptr || !*stop) {
    plan->lowest = true;
  }
  PlanStore::release(*plan);
}

}  // namespace memo
