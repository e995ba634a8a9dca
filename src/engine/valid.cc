// What must hold of the engine's books between two calls, for tests: each function looks at all of
// what it is about, and no other thread may be at work. Cold.
#include "src/engine/engine.h"

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

// A plan belongs to the phases that wait for it or serve it, and stays while it is used; the slab
// has memory for what is served from.
bool Lane::valid() const {
  const Phase now = phase();
  const bool has_plan = now == Phase::kReady || now == Phase::kServing;
  if (has_plan != (plan_ != nullptr) || (has_plan && plan_->users == 0)) {
    return false;
  }
  if (now == Phase::kReady && cursor_.position() >= plan_->made->count) {
    return false;
  }
  if (now == Phase::kServing) {
    const Schedule* schedule = placer_.schedule();
    if (schedule == nullptr || placer_.position() >= schedule->count ||
        (awake_ && schedule->height > slab_height())) {
      return false;
    }
  }
  return (!following_ || now == Phase::kServing) && slab_.valid();
}

bool Engine::valid() const {
  if (!opened()) {
    return true;
  }
  std::uint64_t slab_bytes = 0;
  for (std::uint32_t i = 0; i < lane_count(); ++i) {
    if (!lanes_[i].valid()) {
      return false;
    }
    slab_bytes += lanes_[i].slab_height();
  }
  return slab_bytes == shared_->slabs.bytes && shared_->store.valid() && shared_->pool.valid();
}

}  // namespace memo
