// Who owns a lane: taken and left by threads, found again in a forked child, with memory to learn
// or without. Hot.
#include "src/base/os.h"
#include "src/base/tuning.h"
#include "src/engine/lane.h"

namespace memo {
void Lane::open(Shared* shared, std::uint32_t number, Space* slab) {
  shared_ = shared;
  number_ = number;
  slab_.open(slab, &shared->slabs, &shared->pool, number);
}

void Lane::begin_histories() {
  repeat_.start(log_.history(), tuning::kMaxLog);
  site_repeat_.start(log_.history() + tuning::kMaxLog, tuning::kMaxLog);
}

// Memory for learning; false where the system refuses it.
bool Lane::prepare_to_learn() {
  if (!log_.ready() && log_.prepare(shared_->keep_trace)) {
    begin_histories();
  }
  return log_.ready();
}

// For a lane without a recorder, at each call: true once it has got one.
bool Lane::learns_again() {
  if (!log_.prepare_again(shared_->keep_trace)) {
    return false;
  }
  begin_histories();
  set_phase(Phase::kLearning);
  return true;
}

void Lane::look_for_period() {
  set_phase(log_.ready() ? Phase::kLearning : Phase::kPooling);
}

// Without a word: what the lane does is told when it follows its thread.
void Lane::enter() {
  phase_.store(Phase::kPooling, std::memory_order_release);
}

void Lane::follow_thread(const StackBounds& stack) {
  stack_ = stack;
  prepare_to_learn();
  look_for_period();
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
  if (phase() == Phase::kServing || phase() == Phase::kReady) {
    drop_plan();
  }
  if (!shared_->keep_trace) {
    log_.recorder.restart();
  }
  follower_ = Follower();
  log_.forget_marks();
  walks_whole_ = false;
  stack_ = {};
  set_phase(Phase::kIdle);
}

// A lane that was abandoned may be had when nobody is at work on it any more. What its owner was
// about is not whole, and is forgotten; the page maps are right at any moment.
bool Lane::vacant() {
  if (!abandoned_.load(std::memory_order_acquire)) {
    return phase() == Phase::kIdle;
  }
  const TryLock entered(entered_);
  if (entered) {
    forget_stream();
    abandoned_ = false;
    set_phase(Phase::kIdle);
  }
  return static_cast<bool>(entered);
}

void Lane::forget_stream() {
  placer_.stop();
  shapes_ = Shapes();
  plan_ = nullptr;
  placed_ = 0;
  following_ = walks_whole_ = forked_ = false;
  slab_.forget_refusal();
  follower_ = Follower();
  log_.forget_marks();
  restarts_ = symbolic_ = 0;
  demand_ = Demand();
  touched_.restart();
  looping_.store(false, std::memory_order_relaxed);
  stack_ = {};
  if (!shared_->keep_trace) {
    log_.recorder.restart();
  }
  if (log_.ready()) {
    begin_histories();
  }
  purge_slab();
}

// A child counts its own calls alone.
void Lane::forget_counts() {
  counters.reset();
  planned_ = false;
  served_.reset();
}

bool Lane::after_fork() {
  forget_counts();
  if (entered_.held_by_me()) {
    forked_ = true;
    awake_.store(false, std::memory_order_relaxed);
    return false;
  }
  entered_.forget_owner();  // the keeper, who may have been at work on the lane
  start_anew();
  return true;
}

void Lane::start_anew() {
  forked_ = false;
  if (phase() == Phase::kServing || phase() == Phase::kReady) {
    drop_plan();
    look_for_period();
  }
  purge_slab();
  follower_.restart();
  log_.recorder.restart();
}

void Lane::orphan() {
  forget_counts();
  entered_.forget_owner();  // not the keeper's, nor an owner's that was at work or just leaving
  if (phase() != Phase::kIdle) {
    plan_ = nullptr;
    phase_.store(Phase::kPooling, std::memory_order_release);
    abandoned_ = true;
  }
}

}  // namespace memo
