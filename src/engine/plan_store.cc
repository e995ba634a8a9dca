#include "src/engine/plan_store.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "src/base/tuning.h"
#include "src/learn/learn.h"

namespace memo {
namespace {

bool unsearched(const StoredPlan& plan) {
  return !plan.searched && !plan.made->lowest;
}

// True if `plan` is rather to be taken than `found`, which fits, too. Where neither is known to be
// the command's own, a wrong guess is to cost little memory.
bool is_likelier(const StoredPlan& plan, const StoredPlan& found, const StoredPlan* preferred) {
  if (&plan == preferred || &found == preferred) {
    return &plan == preferred;
  }
  const Maker a = std::max(plan.maker, Maker::kVersion);
  const Maker b = std::max(found.maker, Maker::kVersion);
  return a != b ? a > b : plan.best()->height < found.best()->height;
}

// True if what `plan` says of the stream the one on trial says as well: a shorter loop is a part of its
// iteration, and one as short has the same few blocks. To go over to it would cost what is noted.
bool shows_no_more(const StoredPlan& plan, const StoredPlan& tried) {
  return plan.made->symbolic == nullptr &&
         (plan.iteration < tried.iteration ||
          (plan.iteration == tried.iteration && plan.iteration < tuning::kLongLoop));
}

}  // namespace

StoredPlan* PlanStore::add(const RecursionGuard&, Plan plan, std::uint32_t iteration, Maker maker) {
  StoredPlan* stored = take_slot();
  if (stored == nullptr) {
    return nullptr;
  }
  stored->made = std::move(plan);
  stored->has_better = false;
  stored->better = Plan();
  stored->searched = false;
  stored->completing = false;
  stored->walked = maker == Maker::kProcess;
  stored->maker = maker;
  stored->iteration = iteration;
  return publish(stored) ? stored : nullptr;
}

bool PlanStore::complete(const RecursionGuard& guard, StoredPlan& plan) {
  if (plan.best()->symbolic == nullptr || plan.best()->symbolic->complete()) {
    return true;
  }
  if (plan.completing.exchange(true)) {
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
      plan.searched = true;
      plan.users.fetch_add(1, std::memory_order_acq_rel);
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
  plan.users.fetch_add(1, std::memory_order_acq_rel);
  plan.used_at = ++clock_;
}

void PlanStore::release(StoredPlan* plan) {
  plan->users.fetch_sub(1, std::memory_order_acq_rel);
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
    // Whoever was completing it does not exist here, but for an interrupted frame of this thread.
    plan.completing = in_use && plan.completing;
  }
}

void Follower::restart() {
  for (Place& place : places_) {
    place = Place();
  }
  recent_ = Recent();
  window_ = CallWindow();
}

Follower::Found Follower::find(PlanStore& store, const StoredPlan* serving, Has has,
                               std::uint64_t tried) {
  const StoredPlan* preferred = has == Has::kTrial ? nullptr : serving;
  Found found;
  const bool fresh = has == Has::kNothing && fresh_ != 0;
  fresh_ -= fresh_ != 0 ? 1 : 0;
  store.for_each([&](StoredPlan& plan, std::uint32_t slot) {
    Place& place = places_[slot];
    if (place.generation != plan.generation) {
      place = Place();
      place.generation = plan.generation;
      catch_up(place.cursor, plan);
    }
    const bool in_vain = has == Has::kTrial && shows_no_more(plan, *serving);
    const std::uint64_t needed = in_vain ? UINT64_MAX
                                         : std::max(calls_needed(slot, plan, fresh, has),
                                                    std::min<std::uint64_t>(tried, plan.iteration));
    if (fits(place.cursor, plan, recent_, needed) &&
        (found.plan == nullptr || is_likelier(plan, *found.plan, preferred))) {
      if (found.plan != nullptr) {
        store.release(found.plan);
      }
      found = {&plan, place.cursor.position(), place.cursor.first()};
      store.use(plan);
    }
  });
  return found;
}

// A plan that has just come was not there for the calls before the last one: another thread has
// made it, or it was fetched since they are its own.
void Follower::catch_up(Cursor& cursor, const StoredPlan& plan) const {
  Recent recent;
  for (std::uint32_t i = 0; i + 1 < window_.known(); ++i) {
    recent.add(window_.size(i));
    fits(cursor, plan, recent, UINT64_MAX);
  }
}

void Follower::distrust(std::uint32_t slot, const StoredPlan& plan, bool unfit) {
  if (distrusted_[slot] != plan.generation) {
    distrusted_[slot] = plan.generation;
    failures_[slot] = 0;
  }
  failures_[slot] = std::min(failures_[slot] + (unfit ? 2 : 1), tuning::kMaxFailures);
}

std::uint64_t Follower::calls_needed(std::uint32_t slot, const StoredPlan& plan, bool fresh,
                                     Has has) const {
  const Schedule& schedule = *plan.made;
  const bool failed = distrusted_[slot] == plan.generation && failures_[slot] != 0;
  if (fresh && !failed && schedule.symbolic == nullptr && plan.walked) {
    return tuning::kFitFresh;
  }
  const std::uint64_t fit = schedule.symbolic != nullptr ? tuning::kFitShape : tuning::kFit;
  const bool distrusted = failed && failures_[slot] > 1;
  if (distrusted && has == Has::kTrial) {
    return UINT64_MAX;
  }
  return distrusted ? fit + (std::uint64_t{schedule.count} << failures_[slot]) : fit;
}

// Takes the newest of the recent sizes; true if the plan has fitted for `needed` calls.
bool Follower::fits(Cursor& cursor, const StoredPlan& plan, const Recent& recent,
                    std::uint64_t needed) {
  const Schedule& schedule = *plan.made;
  if (schedule.symbolic != nullptr) {
    cursor.seek(*schedule.symbolic, recent.latest());
    return cursor.sure(*schedule.symbolic, tuning::kFitShape) &&
           (needed == tuning::kFitShape || cursor.run() >= needed);
  }
  cursor.seek(schedule, plan.made.index(), recent);
  return cursor.run() >= needed;
}

}  // namespace memo
