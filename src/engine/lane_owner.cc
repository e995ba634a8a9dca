// Who owns a lane: taken and left by threads, found again in a forked child, with memory to learn
// or without. Hot.
#include "src/engine/lane.h"

namespace memo {

void Lane::open(Shared* shared, std::uint32_t number, Space* slab) {
  hands_.open(shared, number, slab, &tracker_);
  tracker_.open({.counters = &counters,
                 .slab_room = slab->bytes(),
                 .keeps_trace = shared->keep_trace,
                 .keeps_sites = shared->keep_sites,
                 .tape = shared->host.tape});
}

// Without a word: what the lane does is told when it follows its thread.
void Lane::enter() {
  tracker_.happened(Event::kTaken);
}

void Lane::follow_thread(const StackBounds& stack) {
  hands_.stack = stack;
  hands_.prepare_to_learn();
  hands_.run(tracker_.happened(Event::kFollows));
}

void Lane::leave() {
  if (entered_.held_by_me()) {
    // A handler has interrupted the lane at work and ends the thread: that call does not go on.
    abandoned_ = true;
    entered_.forget_owner();
    return;
  }
  const WaitLock held(entered_, Lock::Patience::kFork);
  if (!held) {
    abandoned_ = true;
    return;
  }
  hands_.run(tracker_.happened(Event::kLeft));
  hands_.forget();
}

// A lane may be had when nobody is at work on it any more: who leaves makes it idle before it is
// done. What the owner of an abandoned one was about is not whole, and is forgotten; the page maps
// are right at any moment.
bool Lane::vacant() {
  const bool abandoned = abandoned_.load(std::memory_order_acquire);
  if (!abandoned && phase() != Phase::kIdle) {
    return false;
  }
  const TryLock entered(entered_);
  if (entered && abandoned) {
    hands_.run(tracker_.happened(Event::kAbandoned));
    hands_.forget();
    hands_.slab.forget_refusal();
    hands_.touched.restart();
    if (hands_.log.ready()) {
      tracker_.begin_histories(hands_.log.history());
    }
    rest_.store(Rest::kAwake, std::memory_order_relaxed);
    hands_.purge();
    abandoned_ = false;
  }
  return static_cast<bool>(entered);
}

// A child counts its own calls alone.
void Lane::forget_counts() {
  counters.reset();
  tracker_.tally().forget();
}

bool Lane::after_fork() {
  forget_counts();
  if (entered_.held_by_me()) {
    rest_.store(Rest::kForked, std::memory_order_relaxed);
    return false;
  }
  entered_.forget_owner();  // the background thread, who may have been at work on the lane
  hands_.run(tracker_.happened(Event::kForked));
  return true;
}

void Lane::orphan() {
  forget_counts();
  // Not the background thread's, nor an owner's that was at work or just leaving.
  entered_.forget_owner();
  if (phase() != Phase::kIdle) {
    tracker_.happened(Event::kOrphaned);
    abandoned_ = true;
  }
}

}  // namespace memo
