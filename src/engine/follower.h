// Follows the plans of the process along one stream. Hot; one lane's.
#pragma once

#include <cstdint>

#include "src/engine/plan_store.h"
#include "src/follow/cursor.h"
#include "src/follow/plan_name.h"

namespace memo {

class Follower {
 public:
  // The plan that has fitted for long enough, and the step that comes next in it.
  struct Found {
    StoredPlan* plan = nullptr;  // acquired for the caller
    StepIndex position;
    std::uint64_t first = 0;  // first size of the current iteration, for a parametric plan
    std::uint32_t trial = 0;  // calls that it is to serve before it is believed
  };
  // The stream's next call. Before find() plans may be added that have fitted up to it.
  void hear(std::uint64_t size, std::uint32_t alignment_log2) {
    recent_.add(size);
    window_.add(size, alignment_log2);
  }
  // Where several fit, the one the lane is `serving` if that is one of them and not on trial, else
  // that of the same process or command, else the lowest. Where it serves none, fewer of its
  // thread's first calls must fit, since they most likely do what other threads have done.
  // `tried`: calls for which the loop of the plan on trial has come; 0: none is. Another one must
  // fit for as many, or for an iteration of its own: a long one that has the same short loop in it
  // fits for a while, too. None is preferred to it that shows no more than it does, or has
  // failed here: of a loop whose blocks live longer than before, the calls fit it as they did.
  Found find(PlanStore& store, const StoredPlan* serving, std::uint64_t tried = 0);
  // The last calls that were heard.
  [[nodiscard]] const CallWindow& window() const { return window_; }
  // Of the thread's first calls too few have been looked at for a known plan to be ruled out.
  [[nodiscard]] bool beginning() const { return fresh_ != 0; }
  void restart();
  // The plan of this slot was left by the lane. From the second time on it must fit for more of its
  // calls before it is taken up again. One that is `unfit` must fit four times through, and twice
  // as often after each further time.
  void distrust(std::uint32_t slot, const StoredPlan& plan, bool unfit);

 private:
  struct Place {
    std::uint64_t generation = 0;  // of the plan that all else here is about
    Cursor cursor;
    // How often the plan was left, 2 at most. From 3 on it was unfit, and must fit through
    // 2^(failed - 1) times.
    std::uint32_t failed = 0;
  };
  Place& place_of(std::uint32_t slot, const StoredPlan& plan);
  static std::uint64_t calls_needed(const Place& place, const StoredPlan& plan, bool fresh,
                                    bool trial);
  void catch_up(Cursor& cursor, const StoredPlan& plan) const;
  static bool fits(Cursor& cursor, const StoredPlan& plan, const Recent& recent,
                   std::uint64_t needed);
  Place places_[tuning::kMaxPlans] = {};
  Recent recent_;
  CallWindow window_;
  std::uint32_t fresh_ = tuning::kFreshCalls;  // calls that still count as the thread's beginning
};

}  // namespace memo
