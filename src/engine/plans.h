// The plans of a process, as its host sees them: adds those of earlier processes, reads all, and
// goes on looking for lower ones. The lanes use the store itself (src/engine/plan_store.h). Cold.
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

#include "src/base/os.h"
#include "src/base/tuning.h"
#include "src/engine/lanes.h"

namespace memo {

class Plans {
 public:
  explicit constexpr Plans(const Lanes& lanes) : lanes_(lanes) {}

  // True for what MEMOMALLOC_PLANNER may name.
  static bool has_planner(std::string_view name);

  // Adds a plan of an earlier process once there is a lane. Where it does not fit the program, it
  // is never taken up: it gets no slab, and of a parametric plan what the file leaves out is not
  // made, before calls have matched it. Nobody's use of it is counted; nullptr if there is no room.
  StoredPlan* add(const RecursionGuard& guard, Plan plan, std::uint32_t iteration,
                  Maker maker = Maker::kOther);
  // Runs function(plan) for each plan, which from then on is kept until PlanStore::release().
  // Waits for a thread that changes the store, though not for ever, and not at all if it is the
  // calling one: a signal's handler may end the process.
  template <typename Function>
  void for_each(Function&& function) {
    if (!lanes_.opened()) {
      return;
    }
    PlanStore& store = lanes_.shared().store;
    const auto keep = [&](StoredPlan& plan, std::uint32_t) {
      store.hold(plan);
      function(plan);
    };
    for (std::uint64_t i = 0;
         !store.for_each(keep) && i < tuning::kForkPatience / os::kMillisecond &&
         !store.lock().held_by_me() && os::rest();
         ++i) {
    }
  }

  // Looks for a lower plan than one that was made in the time allowed on a caller's path; takes
  // seconds, or until `*stop`. The lanes put it in between two iterations. Any thread that may take
  // so long; needs the stack of a planner.
  void search(const RecursionGuard& guard, const std::atomic<bool>* stop = nullptr);
  // True if search() would find something to do.
  [[nodiscard]] bool wants_search() const;

 private:
  const Lanes& lanes_;
};

}  // namespace memo
