// What must hold of the engine's books between two calls, for tests: each function looks at all of
// what it is about, and no other thread may be at work. Cold.
#include "src/engine/lanes.h"

namespace memo {

bool PlanStore::valid() const {
  std::uint32_t visible = 0;
  for (std::uint32_t slot = 0; slot < tuning::kMaxPlans; ++slot) {
    const StoredPlan& plan = plans_[slot];
    if (state_[slot] != State::kVisible) {
      continue;
    }
    ++visible;
    if (!plan.made || plan.made->count == 0 || plan.generation == 0 ||
        plan.generation > generations_ || plan.used_at > clock_ ||
        (plan.has_better && !plan.better)) {
      return false;
    }
    for (std::uint32_t other = 0; other < slot; ++other) {
      if (state_[other] == State::kVisible && plans_[other].generation == plan.generation) {
        return false;
      }
    }
  }
  return visible == visible_count_;
}

// The slab has memory for what is served from.
bool Lane::valid() const {
  const bool has_memory = phase() != Phase::kServing || !memory_.holds_slab() ||
                          tracker_.wanted().height <= slab_height();
  return tracker_.valid() && has_memory;
}

bool Lanes::valid() const {
  if (!opened()) {
    return true;
  }
  for (std::uint32_t i = 0; i < count(); ++i) {
    if (!at(i).valid()) {
      return false;
    }
  }
  return shared_->slabs.valid() && shared_->store.valid() && shared_->pool.valid();
}

}  // namespace memo
