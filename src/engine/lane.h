// A lane: what serves one thread's stream of large allocations. Hot.
//
// A lane asks its tracker (src/engine/tracker.h) what to do, and its hands (src/engine/hands.h) do
// it. Exactly one thread owns a lane at a time and is the only one to call it, but for free(),
// which any thread may call. `entered_` keeps out a signal handler's allocation in the middle of
// another, and maintenance by other threads; only a thread that ends waits for it.
#pragma once

#include <atomic>
#include <cstdint>

#include "src/base/counters.h"
#include "src/base/guard.h"
#include "src/base/lock.h"
#include "src/engine/hands.h"
#include "src/engine/shared.h"
#include "src/engine/tracker.h"

namespace memo {

// What others see of a lane.
class LaneView {
 public:
  [[nodiscard]] Phase phase() const { return tracker_.phase(); }
  // Owner only, but for what says otherwise.
  [[nodiscard]] const Tracker& tracker() const { return tracker_; }
  [[nodiscard]] std::uint64_t slab_height() const { return hands_.slab.height(); }
  // No thread owns the lane, or it has neither taken memory nor gone through its plan lately. Any
  // thread; `now` of the monotonic clock.
  [[nodiscard]] bool rests(Nanos now) const {
    return phase() == Phase::kIdle || hands_.slab.turn.rests(now);
  }
  [[nodiscard]] Space& slab_space() const { return hands_.slab.space(); }
  // In a forked child, before its lanes live on; and for what of it any thread may ask.
  [[nodiscard]] Slab& slab() { return hands_.slab; }
  // Runs function(slab) while nobody claims in it; false if the lane is just at work. For a moment:
  // calls of the owner go to the next allocator meanwhile. Any thread.
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

  Counters counters;

 protected:
  enum class Rest : std::uint8_t {
    kAwake,
    kGivenBack,  // the slab's memory was given back since the last call
    kForked,     // a fork has interrupted the lane: it is to start anew
  };
  std::atomic<Rest> rest_{Rest::kAwake};
  Lock entered_;
  Tracker tracker_;
  Hands hands_;
};

// Notices from time to time that a lane's calls have stopped.
class Quiet {
 public:
  struct Look {
    bool rested = false;    // there were none since the last look
    bool for_long = false;  // nor for long
  };
  // `calls` so far. One thread at a time.
  Look look(std::uint64_t calls, Nanos now) {
    const bool rested = calls == calls_;
    // There may have been none at the first look, but not for long.
    if (!rested || since_ == Nanos{0}) {
      calls_ = calls;
      since_ = now;
    }
    return {rested, now - since_ >= tuning::kQuietNanoseconds};
  }

 private:
  std::uint64_t calls_ = 0;  // at the last look
  Nanos since_;
};

class Lane : public LaneView {
 public:
  // Ties the lane to its slab's space and its number. Once, before any other call.
  void open(Shared* shared, std::uint32_t number, Space* slab);

  // Somebody owns the lane from now on, until leave(); the calling thread, once it follows.
  // Requires vacant(). Under the registry's lock.
  void enter();
  // The lane learns from the calling thread, whose stack this is: takes the memory for it.
  void follow_thread(const StackBounds& stack);
  void leave();
  // True if nobody owns the lane. Under the registry's lock.
  bool vacant();

  // A block for the request, or nullptr: the next allocator's. Owner only.
  void* allocate(const Request& request);
  // The same of a recorded stream, whose call stacks are known; 0: not.
  void* allocate(const Request& request, std::uint64_t site);
  // Counts a block of the next allocator that realloc has made large. Owner only.
  void note_foreign_growth(std::uint64_t bytes) { tracker_.grown(bytes); }
  // The host begins an iteration. Owner only.
  void iteration(const RecursionGuard& guard);

  // Releases a block of the pool (of `bytes`, this lane's); false if none starts there. Any thread.
  bool free_pooled(void* start, std::uint64_t bytes, std::uint32_t freeing_lane);
  // A block of this lane's slab, in `space`, is about to be released. Any thread.
  void note_death(Space& space, void* start, std::uint32_t freeing_lane);
  // A block of the pool of this lane was changed in size, in place; bytes. Any thread. Always true.
  bool resized(std::uint64_t before, std::uint64_t after) {
    hands_.live.fetch_add(after - before, std::memory_order_relaxed);
    return true;
  }

  // Gives back the slab's memory that no block uses, and what of it no block lies behind counts as
  // the process' no more; the plan and its place are kept, and the next call takes the memory
  // again. Any thread; false if the lane is just at work.
  bool give_back();
  // Lends its slab's memory to another lane's slab, if it rests and no block is in use. Any thread.
  bool lend(Slab& slab, Nanos now);
  // Gives memory back if the lane has been quiet for long, or, where memory is `scarce`, since the
  // last tick; tells whether it has been for long. Any thread.
  bool tick(Nanos now, bool scarce);
  // In a forked child, where only the forking thread lives on: no plan, no slab, learning anew.
  // False, and it is done at the next call, if the fork has interrupted the lane at work.
  bool after_fork();
  // In a forked child: the lane's owner does not exist any more. Its blocks stay where they are.
  void orphan();

 private:
  void* glide(const Request& request, const Step& step);
  void wake();
  void forget_counts();

  Quiet quiet_;
  std::atomic<bool> abandoned_{false};  // the owner has ended or does not exist, and has not left
};

}  // namespace memo
