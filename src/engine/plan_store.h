// The plans of the process: learned by one lane, followed by any. Hot to follow, changed under one
// lock that is never held across a call out.
#pragma once

#include <atomic>
#include <cstdint>

#include "src/base/guard.h"
#include "src/base/lock.h"
#include "src/base/tuning.h"
#include "src/follow/plan.h"

namespace memo {

// The maker of a plan. kVersion: the same program with the same arguments, whose code has changed,
// so that the plan is one of its own that may be past.
enum class Maker : std::uint8_t { kOther, kVersion, kCommand, kProcess };

struct StoredPlan {
  Plan made;
  // The same steps in a lower slab, once the search in the background has found one; of a file's
  // parametric plan, the whole that PlanStore::complete() has made. Written once.
  Plan better;
  std::atomic<bool> has_better{false};
  // No lower one is known of, and none is looked for (any more).
  std::atomic<bool> lowest{false};
  // A thread of this process looks for one, or completes the plan; it is done once.
  std::atomic<bool> at_work{false};
  Maker maker = Maker::kOther;
  // Every call of it has come in order in this process, or it was made of this process' calls. What
  // a file only claims is not given memory before it is used.
  std::atomic<bool> walked{false};
  // No two plans that a store has held have the same; 0: none. A place in a plan is kept together
  // with it, since a slot, and the schedule's address, come to belong to others.
  std::uint64_t generation = 0;
  std::atomic<std::uint64_t> withdrawn{0};  // generation of the last that the slot had to give up
  std::uint32_t iteration = 0;              // steps of one iteration; the schedule may span several
  std::atomic<std::uint32_t> users{0};      // lanes that serve it; while > 0 it stays
  std::atomic<std::uint64_t> used_at{0};    // when a lane last took it, by the store's clock

  // The plan to serve from.
  [[nodiscard]] const Plan& best() const {
    return has_better.load(std::memory_order_acquire) ? better : made;
  }
  // After the plan was searched or completed, once: `plan` is served from now on, if it is one.
  void improve(Plan plan) {
    if (plan) {
      better = static_cast<Plan&&>(plan);
      has_better.store(true, std::memory_order_release);
    }
  }
};

class PlanStore {
 public:
  // Adds a plan, with the caller as its first user, in place of the one used longest ago if there
  // is no room; nullptr if every plan is in use.
  StoredPlan* add(const RecursionGuard&, Plan plan, std::uint32_t iteration, Maker maker);
  // Makes what a file leaves out of a symbolic plan, in O(n log n) of its steps: to be called when
  // the plan is first needed, by one of its users. False, and the plan withdrawn, if it contradicts
  // itself or there is no memory; false, too, while another thread is at it.
  bool complete(const RecursionGuard& guard, StoredPlan& plan);
  // True if take_unsearched() would find a plan.
  bool has_unsearched();
  // A plan that no search in the background has looked at, with the caller as a user; nullptr if
  // there is none.
  StoredPlan* take_unsearched();
  // A plan whose iteration begins with the first `position` sizes of `schedule` and then `size`,
  // with the caller as a user; nullptr if there is none.
  StoredPlan* take_beginning(const Schedule& schedule, StepIndex position, std::uint64_t size);
  // The caller uses the plan from now on; inside for_each() only.
  void use(StoredPlan& plan);
  // The plan stays where it is until release(), though nobody serves from it; inside for_each()
  // only.
  static void hold(StoredPlan& plan) { plan.users.fetch_add(1, std::memory_order_acq_rel); }
  // The caller no longer uses the plan.
  static void release(StoredPlan& plan) { plan.users.fetch_sub(1, std::memory_order_acq_rel); }
  // True if the plan of that generation, which had this slot, was the last in it to be withdrawn.
  static bool was_withdrawn(const StoredPlan& slot, std::uint64_t generation) {
    return slot.withdrawn.load(std::memory_order_relaxed) == generation;
  }
  // Withdraws a plan that was wrong: nobody follows it any more. Where others hold the store for
  // long, it stays, and is distrusted by whom it has failed.
  void withdraw(StoredPlan* plan);
  // In a forked child: no other thread has the lock, and none but perhaps the caller uses a plan.
  void after_fork(bool in_use);

  // Runs function(plan, slot) for each visible plan; false if another thread has the store's lock.
  template <typename Function>
  bool for_each(Function&& function) {
    if (visible_count_.load(std::memory_order_relaxed) == 0) {
      return true;
    }
    const TryLock held(lock_);
    if (!held) {
      return false;
    }
    for (std::uint32_t slot = 0; slot < tuning::kMaxPlans; ++slot) {
      if (state_[slot] == State::kVisible) {
        function(plans_[slot], slot);
      }
    }
    return true;
  }
  // True if there is no plan to be followed.
  [[nodiscard]] bool empty() const { return visible_count_.load(std::memory_order_relaxed) == 0; }
  // True if the store's books agree. No other thread may be at work.
  [[nodiscard]] bool valid() const;
  [[nodiscard]] Lock& lock() { return lock_; }
  [[nodiscard]] std::uint32_t slot_of(const StoredPlan* plan) const {
    return static_cast<std::uint32_t>(plan - plans_);
  }

 private:
  enum class State : std::uint8_t { kEmpty, kBeingMade, kVisible, kWithdrawn };
  StoredPlan* take_slot();
  bool publish(StoredPlan* plan);

  StoredPlan plans_[tuning::kMaxPlans];
  State state_[tuning::kMaxPlans] = {};
  std::atomic<std::uint32_t> visible_count_{0};
  std::uint64_t clock_ = 0;
  std::uint64_t generations_ = 0;
  Lock lock_;
};

}  // namespace memo
