// See lane_owner.h. Hot.
#include "src/engine/lane_owner.h"

#include "src/base/os.h"

namespace memo {

void LaneOwner::open(Shared* shared, std::uint32_t number, Space* slab) {
  hands_.open(shared, number, slab, &tracker_);
  tracker_.open({.counters = &counters,
                 .slab_room = slab->bytes(),
                 .keeps_trace = shared->keep_trace,
                 .tape = shared->host.tape});
}

// Without a word: what the lane does is told when it follows its thread.
void LaneOwner::begin() {
  watched_.restart(os::coarse_nanoseconds());
  lease_.begin();
  tracker_.happened(Event::kTaken);
}

void LaneOwner::follow_thread(const StackBounds& stack) {
  hands_.stack = stack;
  hands_.prepare_to_learn();
  hands_.run(tracker_.happened(Event::kFollows));
  entered_.unlock_quietly();
}

// The lane is idle and nobody's before it is left alone.
void LaneOwner::end_lease() {
  hands_.run(tracker_.happened(Event::kLeft));
  hands_.forget();
  lease_.end();
}

void LaneOwner::leave() {
  if (entered_.held_by_me()) {
    // A handler has interrupted the lane at work and ends the thread: that call does not go on.
    lease_.abandon();
    entered_.forget_owner();
    return;
  }
  const WaitLock held(entered_, Lock::Patience::kFork);
  if (!held) {
    lease_.abandon();
  } else if (lease_.mine()) {
    end_lease();
  }
}

// What the owner of an abandoned lane was about is not whole, and is forgotten; the page maps are
// right at any moment.
bool LaneOwner::take() {
  if (!lease_.vacant() || !entered_.try_lock()) {
    return false;
  }
  if (lease_.abandoned()) {
    hands_.run(tracker_.happened(Event::kAbandoned));
    hands_.forget();
    hands_.slab.forget_refusal();
    if (hands_.log.ready()) {
      tracker_.begin_histories(&hands_.log.sizes, &hands_.log.sites);
    }
    hands_.purge();
  }
  begin();
  return true;
}

bool LaneOwner::take_over(Nanos now) {
  if (!entered_.try_lock()) {
    watched_.restart(now);
    return false;
  }
  watch(now);
  if (!may_be_taken(now)) {
    entered_.unlock_quietly();
    return false;
  }
  lease_.seize();
  end_lease();
  begin();
  return true;
}

// A child counts its own calls alone.
void LaneOwner::forget_counts() {
  counters.reset();
  tracker_.tally().forget();
}

bool LaneOwner::after_fork() {
  forget_counts();
  if (entered_.held_by_me()) {
    lease_.tell(Lease::kForked);
    return false;
  }
  entered_.forget_owner();  // the background thread, who may have been at work on the lane
  hands_.run(tracker_.happened(Event::kForked));
  return true;
}

void LaneOwner::orphan() {
  forget_counts();
  // Not the background thread's, nor an owner's that was at work or just leaving.
  entered_.forget_owner();
  if (!lease_.vacant()) {
    tracker_.happened(Event::kOrphaned);
    lease_.orphan();
  }
}

}  // namespace memo
