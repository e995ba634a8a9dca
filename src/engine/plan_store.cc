#include "src/engine/plan_store.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "src/base/tuning.h"
#include "src/follow/cursor.h"
#include "src/learn/learn.h"

namespace memo {
namespace {

// One that was loaded, and not walked through, may never be used here.
bool unsearched(const StoredPlan& plan) {
  return plan.walked.load(std::memory_order_relaxed) && !plan.at_work &&
         !plan.has_better.load(std::memory_order_relaxed) &&
         !plan.lowest.load(std::memory_order_relaxed);
}

}  // namespace

StoredPlan* PlanStore::add(const RecursionGuard&, Plan plan, std::uint32_t iteration, Maker maker) {
  StoredPlan* stored = take_slot();
  if (stored == nullptr) {
    return nullptr;
  }
  stored->lowest = plan->lowest;
  stored->made = std::move(plan);
  stored->has_better = false;
  stored->better = Plan();
  stored->at_work = false;
  stored->walked = maker == Maker::kProcess;
  stored->maker = maker;
  stored->iteration = iteration;
  return publish(stored) ? stored : nullptr;
}

bool PlanStore::complete(const RecursionGuard& guard, StoredPlan& plan) {
  if (plan.best()->symbolic == nullptr || plan.best()->symbolic->complete()) {
    return true;
  }
  if (plan.at_work.exchange(true)) {
    return false;
  }
  plan.improve(restore(guard, *plan.made));
  if (!plan.has_better.load(std::memory_order_relaxed)) {
    withdraw(&plan);
    return false;
  }
  return true;
}

// A slot for a new plan, taken from the plan used longest ago if all are full; nullptr if every
// plan is in use. The slot is nobody else's until publish().
StoredPlan* PlanStore::take_slot() {
  const WaitLock held(lock_);
  if (!held) {
    return nullptr;
  }
  std::uint32_t chosen = tuning::kMaxPlans;
  for (std::uint32_t slot = 0; slot < tuning::kMaxPlans; ++slot) {
    const bool idle = plans_[slot].users.load(std::memory_order_acquire) == 0;
    const State state = std::atomic_ref(state_[slot]).load(std::memory_order_acquire);
    if (state == State::kEmpty || (state == State::kWithdrawn && idle)) {
      chosen = slot;
      break;
    }
    if (state == State::kVisible && idle &&
        (chosen == tuning::kMaxPlans || plans_[slot].used_at < plans_[chosen].used_at)) {
      chosen = slot;
    }
  }
  if (chosen == tuning::kMaxPlans) {
    return nullptr;
  }
  if (state_[chosen] == State::kVisible) {
    visible_count_.fetch_sub(1, std::memory_order_relaxed);
  }
  state_[chosen] = State::kBeingMade;
  return &plans_[chosen];
}

// False, and the plan waits in its slot to be replaced, where others hold the store for long.
bool PlanStore::publish(StoredPlan* plan) {
  const WaitLock held(lock_);
  if (!held) {
    std::atomic_ref(state_[slot_of(plan)]).store(State::kWithdrawn, std::memory_order_release);
    return false;
  }
  plan->generation = ++generations_;
  plan->users = 1;
  plan->used_at = ++clock_;
  state_[slot_of(plan)] = State::kVisible;
  visible_count_.fetch_add(1, std::memory_order_relaxed);
  return true;
}

bool PlanStore::has_unsearched() {
  bool found = false;
  for_each([&](const StoredPlan& plan, std::uint32_t) { found = found || unsearched(plan); });
  return found;
}

StoredPlan* PlanStore::take_unsearched() {
  StoredPlan* found = nullptr;
  for_each([&](StoredPlan& plan, std::uint32_t) {
    if (found == nullptr && unsearched(plan)) {
      plan.at_work = true;
      hold(plan);
      found = &plan;
    }
  });
  return found;
}

StoredPlan* PlanStore::take_beginning(const Schedule& schedule, StepIndex position,
                                      std::uint64_t size) {
  StoredPlan* found = nullptr;
  for_each([&](StoredPlan& plan, std::uint32_t) {
    const Schedule& other = *plan.made;
    if (found != nullptr || other.symbolic != nullptr || position >= other.end() ||
        !Cursor(position).expects(other, size)) {
      return;
    }
    Cursor cursor;
    while (cursor.position() < position) {
      if (!cursor.follow(other, schedule.at(cursor.position()).size)) {
        return;
      }
    }
    use(plan);
    found = &plan;
  });
  return found;
}

void PlanStore::use(StoredPlan& plan) {
  hold(plan);
  plan.used_at = ++clock_;
}

void PlanStore::withdraw(StoredPlan* plan) {
  const WaitLock held(lock_);
  if (!held) {
    return;
  }
  State& state = state_[slot_of(plan)];
  if (state == State::kVisible) {
    visible_count_.fetch_sub(1, std::memory_order_relaxed);
  }
  state = State::kWithdrawn;
  plan->withdrawn.store(plan->generation, std::memory_order_relaxed);
}

void PlanStore::after_fork(bool in_use) {
  if (lock_.held_by_another()) {
    lock_.forget_owner();
    visible_count_ = static_cast<std::uint32_t>(
        std::count(std::begin(state_), std::end(state_), State::kVisible));
  }
  for (StoredPlan& plan : plans_) {
    plan.users = in_use ? plan.users.load() : 0;
    // The thread that was at work on it does not exist here, unless this one is completing it.
    plan.at_work = in_use && plan.at_work && plan.made && plan.made->symbolic != nullptr;
  }
}

}  // namespace memo
