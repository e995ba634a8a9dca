#include "src/engine/plan_store.h"

#include <algorithm>
#include <iterator>
#include <new>

#include "src/base/tuning.h"
#include "src/learn/learn.h"

namespace memo {
namespace {

bool unsearched(const Plan& plan) {
  return !plan.searched && !plan.schedule->lowest;
}

}  // namespace

Plan* PlanStore::add(const RecursionGuard&, const Schedule* schedule, std::uint32_t iteration,
                     bool walked) {
  Plan* plan = take_slot();
  if (plan == nullptr) {
    discard(schedule);
    return nullptr;
  }
  discard(plan->schedule);
  discard(plan->better.exchange(nullptr));
  plan->schedule = nullptr;
  plan->searched = false;
  plan->completing = false;
  plan->walked = walked;
  delete[] plan->index_memory;
  plan->index_memory = new (std::nothrow) std::uint32_t[ContextIndex::words(schedule->count)]();
  if (plan->index_memory == nullptr) {
    discard(schedule);
    withdraw(plan);
    return nullptr;
  }
  plan->index.build(*schedule, plan->index_memory);
  plan->schedule = schedule;
  plan->iteration = iteration;
  return publish(plan) ? plan : nullptr;
}

bool PlanStore::complete(const RecursionGuard& guard, Plan& plan) {
  if (plan.best()->symbolic == nullptr || plan.best()->symbolic->complete()) {
    return true;
  }
  if (plan.completing.exchange(true)) {
    return false;
  }
  const Schedule* whole = restore(guard, *plan.schedule);
  if (whole == nullptr) {
    withdraw(&plan);
    return false;
  }
  plan.better.store(whole, std::memory_order_release);
  return true;
}

// A slot for a new plan, taken from the plan used longest ago if all are full; nullptr if every
// plan is in use. The slot is nobody else's until publish().
Plan* PlanStore::take_slot() {
  const WaitLock held(lock_);
  if (!held) {
    return nullptr;
  }
  std::uint32_t chosen = tuning::kMaxPlans;
  for (std::uint32_t slot = 0; slot < tuning::kMaxPlans; ++slot) {
    const bool idle = plans_[slot].users.load(std::memory_order_acquire) == 0;
    if (state_[slot] == State::kEmpty || (state_[slot] == State::kWithdrawn && idle)) {
      chosen = slot;
      break;
    }
    if (state_[slot] == State::kVisible && idle &&
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
bool PlanStore::publish(Plan* plan) {
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
  for_each([&](const Plan& plan, std::uint32_t) { found = found || unsearched(plan); });
  return found;
}

Plan* PlanStore::take_unsearched() {
  Plan* found = nullptr;
  for_each([&](Plan& plan, std::uint32_t) {
    if (found == nullptr && unsearched(plan)) {
      plan.searched = true;
      plan.users.fetch_add(1, std::memory_order_acq_rel);
      found = &plan;
    }
  });
  return found;
}

Plan* PlanStore::take_beginning(const Schedule& schedule, std::uint32_t position,
                                std::uint64_t size) {
  Plan* found = nullptr;
  for_each([&](Plan& plan, std::uint32_t) {
    const Schedule& other = *plan.schedule;
    if (found != nullptr || other.symbolic != nullptr || position >= other.count ||
        other.steps[position].size != size) {
      return;
    }
    for (std::uint32_t i = 0; i < position; ++i) {
      if (other.steps[i].size != schedule.steps[i].size) {
        return;
      }
    }
    use(plan);
    found = &plan;
  });
  return found;
}

void PlanStore::use(Plan& plan) {
  plan.users.fetch_add(1, std::memory_order_acq_rel);
  plan.used_at = ++clock_;
}

void PlanStore::release(Plan* plan) {
  plan->users.fetch_sub(1, std::memory_order_acq_rel);
}

void PlanStore::withdraw(Plan* plan) {
  const WaitLock held(lock_);
  if (!held) {
    return;
  }
  State& state = state_[slot_of(plan)];
  if (state == State::kVisible) {
    visible_count_.fetch_sub(1, std::memory_order_relaxed);
  }
  state = State::kWithdrawn;
}

void PlanStore::after_fork(bool in_use) {
  if (lock_.held_by_another()) {
    lock_.forget_owner();
    visible_count_ = static_cast<std::uint32_t>(
        std::count(std::begin(state_), std::end(state_), State::kVisible));
  }
  for (Plan& plan : plans_) {
    plan.users = in_use ? plan.users.load() : 0;
    // Whoever was completing it does not exist here, but for an interrupted frame of this thread.
    plan.completing = in_use && plan.completing;
  }
}

void Follower::restart() {
  for (Place& place : places_) {
    place = Place();
  }
  for (std::uint64_t& size : recent_) {
    size = 0;
  }
}

Follower::Found Follower::next(PlanStore& store, std::uint64_t size, const Plan* preferred) {
  for (std::uint32_t i = 0; i + 1 < kContext; ++i) {
    recent_[i] = recent_[i + 1];
  }
  recent_[kContext - 1] = size;
  Found found;
  store.for_each([&](Plan& plan, std::uint32_t slot) {
    Place& place = places_[slot];
    if (place.generation != plan.generation) {
      place = Place();
      place.generation = plan.generation;
    }
    if (follow(place, plan, recent_, calls_needed(slot, plan)) &&
        (found.plan == nullptr || &plan == preferred)) {
      if (found.plan != nullptr) {
        store.release(found.plan);
      }
      const bool symbolic = plan.schedule->symbolic != nullptr;
      found = {&plan, symbolic ? place.shape.step() : place.step, place.shape.first()};
      store.use(plan);
    }
  });
  return found;
}

void Follower::distrust(std::uint32_t slot, const Plan& plan, bool unfit) {
  if (distrusted_[slot] != plan.generation) {
    distrusted_[slot] = plan.generation;
    failures_[slot] = 0;
  }
  failures_[slot] = std::min(failures_[slot] + (unfit ? 2 : 1), tuning::kMaxFailures);
}

std::uint64_t Follower::calls_needed(std::uint32_t slot, const Plan& plan) const {
  const Schedule& schedule = *plan.schedule;
  const std::uint64_t fit = schedule.symbolic != nullptr ? tuning::kFitShape : tuning::kFit;
  const bool distrusted = distrusted_[slot] == plan.generation && failures_[slot] > 1;
  return distrusted ? fit + (std::uint64_t{schedule.count} << failures_[slot]) : fit;
}

// Takes the newest of the recent sizes; true if the plan has fitted for `needed` calls.
bool Follower::follow(Place& place, const Plan& plan, const std::uint64_t (&recent)[kContext],
                      std::uint64_t needed) {
  const Schedule& schedule = *plan.schedule;
  const std::uint64_t size = recent[kContext - 1];
  if (schedule.symbolic != nullptr) {
    place.shape.advance(*schedule.symbolic, size);
    return place.shape.sure(*schedule.symbolic, tuning::kFitShape) &&
           (needed == tuning::kFitShape || place.shape.run() >= needed);
  }
  if (place.step < schedule.count && schedule.steps[place.step].size == size) {
    ++place.run;
  } else {
    place.step = plan.index.find(schedule, recent, 0);
    place.run = place.step == kNoStep ? 0 : kContext;
  }
  if (place.step != kNoStep) {
    place.step = (place.step + 1) % schedule.count;
  }
  return place.run >= needed;
}

}  // namespace memo
