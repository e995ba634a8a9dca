// Who owns a lane: taken, left and taken over by threads, found again in a forked child. Hot.
//
// A lane is taken over from a thread that lives and makes no calls, where another one has none: in
// the middle of no call, with the lane's lock, and without waiting. The former owner finds out at its
// next call. What is lost is its place in the plan, and what was noted of a stream without one.
#pragma once

#include "src/base/tuning.h"
#include "src/engine/lane_view.h"
#include "src/engine/shared.h"

namespace memo {

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
  // Not at rest any more, whatever the calls.
  void restart(Nanos now) { since_ = now; }
  // Of the first look that found no more calls than the last one.
  [[nodiscard]] Nanos since() const { return since_; }

 private:
  std::uint64_t calls_ = 0;  // at the last look
  Nanos since_;
};

class LaneOwner : public LaneView {
 public:
  // Ties the lane to its slab's space and its number. Once, before any other call.
  void open(Shared* shared, std::uint32_t number, Space* slab);

  // The calling thread owns the lane from now on, until it leaves or the lane is taken over, and is
  // in the middle of a call of it until follow_thread(); false if the lane is another's. Under the
  // registry's lock.
  bool take();
  // Looks whether the lane's calls have stopped. Under the registry's lock.
  void watch(Nanos now) { watched_.look(counters.large_allocations.get(), now); }
  // As take(), from an owner that rests: without a call since watch() last looked, and not in the
  // middle of one. What the stream has taught stays in the store of plans, blocks stay in the slab.
  bool take_over(Nanos now);
  // Its owner has rested for long enough. What a lane at learning has noted would be lost: it is left
  // for longer, and taken over after all others.
  [[nodiscard]] bool may_be_taken(Nanos now) const {
    return now > watched_.since() + (learns() ? tuning::kLearningLease : tuning::kLease);
  }
  [[nodiscard]] bool loses_less_than(const LaneOwner& other) const {
    return learns() == other.learns() ? watched_.since() < other.watched_.since() : !learns();
  }
  // The lane learns from the calling thread, whose stack this is: takes the memory for it.
  void follow_thread(const StackBounds& stack);
  // The calling thread ends.
  void leave();
  [[nodiscard]] bool mine() const { return lease_.mine(); }

  // In a forked child, where only the forking thread lives on: no plan, no slab, learning anew.
  // False, and it is done at the next call, if the fork has interrupted the lane at work.
  bool after_fork();
  // In a forked child: the lane's owner does not exist any more. Its blocks stay where they are.
  void orphan();

 private:
  [[nodiscard]] bool learns() const {
    const Phase now = phase();
    return now == Phase::kLearning || now == Phase::kReady;
  }
  void begin();
  void end_lease();
  void forget_counts();

  Quiet watched_;  // for whoever looks for a lane
};

}  // namespace memo
