// What others see of a lane (src/engine/lane.h), and what it is made of. Hot.
#pragma once

#include <atomic>
#include <cstdint>

#include "src/base/counters.h"
#include "src/base/lock.h"
#include "src/engine/hands.h"
#include "src/engine/lease.h"
#include "src/engine/tracker.h"

namespace memo {

// What others see of a lane.
class LaneView {
 public:
  [[nodiscard]] Phase phase() const { return tracker_.phase(); }
  // Owner only, but for what says otherwise.
  [[nodiscard]] const Tracker& tracker() const { return tracker_; }
  // Any thread.
  [[nodiscard]] Loop loop() const { return tracker_.loop(); }
  [[nodiscard]] std::uint64_t slab_height() const { return hands_.slab.height(); }
  // No thread owns the lane, or it has neither taken memory nor gone through its plan lately. Any
  // thread; `now` of the monotonic clock.
  [[nodiscard]] bool rests(Nanos now) const {
    return phase() == Phase::kIdle || hands_.slab.turn.rests(now);
  }
  // A thread owns it, and has done so of late, though it may wait for a processor just now.
  [[nodiscard]] bool worked(Nanos now) const {
    return phase() != Phase::kIdle && hands_.slab.turn.worked(now);
  }
  [[nodiscard]] Space& slab_space() const { return hands_.slab.space(); }
  // In a forked child, before its lanes live on; and for what of it any thread may ask.
  [[nodiscard]] Slab& slab() { return hands_.slab; }
  // Runs function(slab) while nobody claims in it; false if the lane is just at work. For a moment:
  // calls of the owner wait, and go to the underlying allocator after 250 ms. Any thread.
  template <typename Function>
  bool with_slab(Function&& function) {
    const TryLock entered(entered_);
    if (entered) {
      function(hands_.slab);
    }
    return static_cast<bool>(entered);
  }
  // True if the phase, the plan and the slab agree. No other thread may be at work.
  [[nodiscard]] bool valid() const;
  [[nodiscard]] const Recorder& recorder() const { return hands_.log.recorder; }
  // Greatest height that the slab has had, bytes, and the greatest bound of the plans served from
  // it.
  [[nodiscard]] std::uint64_t tallest() const { return hands_.slab.tallest(); }
  [[nodiscard]] std::uint64_t bound() const { return hands_.bound.load(std::memory_order_relaxed); }
  // The generation of the plan that the slab is for, while serving; 0: none. Any thread.
  [[nodiscard]] std::uint64_t plan() const {
    return phase() == Phase::kServing ? hands_.told.opened_for.load(std::memory_order_relaxed) : 0;
  }
  [[nodiscard]] double plan_seconds() const {
    return hands_.told.seconds.load(std::memory_order_relaxed);
  }
  // From the first plan on, or before it from the first block that the pool had at hand while
  // pooling. Any thread.
  [[nodiscard]] Served served() const { return tracker_.state().tally.served(); }
  // A thread owns the lane, and served() counts. Any thread.
  [[nodiscard]] bool is_served() const {
    return phase() != Phase::kIdle && tracker_.state().tally.serves();
  }

  Counters counters;

 protected:
  Lease lease_;
  Lock entered_;
  Tracker tracker_;
  Hands hands_;
};

}  // namespace memo
