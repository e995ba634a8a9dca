// Who owns a lane: taken and left by threads, found again in a forked child, with memory to learn
// or without. Hot.
#include "src/base/os.h"
#include "src/base/tuning.h"
#include "src/engine/lane.h"

namespace memo {
void Lane::open(Shared* shared, std::uint32_t number, Space* slab) {
  shared_ = shared;
  number_ = number;
  slab_space_ = slab;
}

// Memory for learning; false where the system refuses it.
bool Lane::prepare_to_learn() {
  const std::uint64_t histories = 2 * sizeof(std::uint32_t) * tuning::kMaxLog;
  if (learns_.load(std::memory_order_relaxed)) {
    return true;
  }
  auto* history = static_cast<std::uint32_t*>(os::map(histories));
  if (history == nullptr) {
    return false;
  }
  if (!recorder_.prepare(shared_->keep_trace ? tuning::kMaxTrace : tuning::kMaxLog,
                         shared_->keep_trace)) {
    os::unmap(history, histories);
    return false;
  }
  history_ = history;
  repeat_.start(history, tuning::kMaxLog);
  site_repeat_.start(history + tuning::kMaxLog, tuning::kMaxLog);
  learns_.store(true, std::memory_order_release);
  return true;
}

// For a lane without a recorder, at each call: true once it has got one.
bool Lane::learns_again() {
  if (memory_to_learn_.waits()) {
    return false;
  }
  if (!prepare_to_learn()) {
    memory_to_learn_.refused(tuning::kMaxWait);
    return false;
  }
  set_phase(Phase::kLearning);
  return true;
}

void Lane::look_for_period() {
  set_phase(learns_.load(std::memory_order_relaxed) ? Phase::kLearning : Phase::kPooling);
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
    recorder_.restart();
  }
  follower_ = Follower();
  mark_count_ = 0;
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
  layout_ = Layout();
  other_shape_ = Cursor();
  plan_ = nullptr;
  placed_ = 0;
  following_ = walks_whole_ = refused_ = forked_ = false;
  follower_ = Follower();
  mark_count_ = 0;
  searched_ = restarts_ = symbolic_ = 0;
  same_peak_ = window_calls_ = short_windows_ = 0;
  searched_peak_ = last_peak_ = window_bytes_ = window_lacked_ = 0;
  touched_.restart();
  looping_.store(false, std::memory_order_relaxed);
  stack_ = {};
  if (!shared_->keep_trace) {
    recorder_.restart();
  }
  if (learns_.load(std::memory_order_relaxed)) {
    repeat_.start(history_, tuning::kMaxLog);
    site_repeat_.start(history_ + tuning::kMaxLog, tuning::kMaxLog);
  }
  purge_slab();
}

// A child counts its own calls alone.
void Lane::forget_counts() {
  counters.reset();
  planned_ = false;
  serves_ = false;
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
  recorder_.restart();
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
