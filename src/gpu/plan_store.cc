// See plan_store.h. Cold.
#include "src/gpu/plan_store.h"

#include <algorithm>
#include <utility>

#include "src/io/plan_cache_name.h"

namespace memo::gpu {

std::shared_ptr<StoredPlan> PlanStore::find(const PlanName& name) {
  for (const auto& known : all) {
    if (known->name == name && !known->wrong) {
      return known;
    }
  }
  return nullptr;
}

void PlanStore::enter(const std::shared_ptr<StoredPlan>& plan) {
  note_use(*plan);
  if (all.size() < kMost) {
    all.push_back(plan);
    return;
  }
  *std::min_element(all.begin(), all.end(), [](const auto& one, const auto& other) {
    return std::pair(!one->wrong, one->turn) < std::pair(!other->wrong, other->turn);
  }) = plan;
}

std::shared_ptr<StoredPlan> PlanStore::add(Plan plan, std::uint32_t iteration) {
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
  enter(known);
  return known;
}

std::vector<std::shared_ptr<StoredPlan>> PlanStore::cached(std::uint64_t key) {
  std::vector<std::shared_ptr<StoredPlan>> result;
  if (cache_ == nullptr) {
    return result;
  }
  for (const PlanName& name : cache_->with_key(key)) {
    if (const auto known = find(name)) {
      result.push_back(known);
    } else if (seen_.insert(name.stream).second) {
      if (std::optional<StoredPlan> loaded = cache_->load(name, most_height_)) {
        ++fetched;
        enter(result.emplace_back(std::make_shared<StoredPlan>(std::move(*loaded))));
      }
    }
  }
  return result;
}

}  // namespace memo::gpu
