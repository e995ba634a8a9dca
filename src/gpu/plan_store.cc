// See plan_store.h. Cold.
#include "src/gpu/plan_store.h"

#include <utility>

#include "src/io/plan_cache_name.h"

namespace memo::gpu {

StoredPlan* PlanStore::find(const PlanName& name) {
  for (const auto& known : all) {
    if (known->name == name && !known->wrong) {
      return known.get();
    }
  }
  return nullptr;
}

StoredPlan* PlanStore::add(Plan plan, std::uint32_t iteration) {
  ++made;
  seconds += plan->plan_seconds;
  auto known = std::make_shared<StoredPlan>();
  known->plan = std::move(plan);
  known->iteration = iteration;
  if (cache_ != nullptr) {
    known->name = name_of({known->plan.get(), iteration}, {});
    seen_.insert(known->name.stream);
    std::vector<PlanName> wrong;
    for (const auto& other : all) {
      if (other->wrong && share_a_key(other->name, known->name)) {
        wrong.push_back(other->name);
      }
    }
    cache_->save(known, std::move(wrong));
  }
  return all.emplace_back(std::move(known)).get();
}

std::vector<StoredPlan*> PlanStore::cached(std::uint64_t key) {
  std::vector<StoredPlan*> result;
  if (cache_ == nullptr) {
    return result;
  }
  for (const PlanName& name : cache_->with_key(key)) {
    if (StoredPlan* known = find(name)) {
      result.push_back(known);
    } else if (all.size() < kMost && seen_.insert(name.stream).second) {
      if (std::optional<StoredPlan> loaded = cache_->load(name, most_height_)) {
        ++fetched;
        result.push_back(all.emplace_back(std::make_shared<StoredPlan>(std::move(*loaded))).get());
      }
    }
  }
  return result;
}

}  // namespace memo::gpu
