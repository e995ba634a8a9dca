// What fork() does to the engine, whoever calls it and wherever: in a handler, without fork()'s own
// handlers, while others hold locks. Cold, but no allocation.
#include "src/base/interrupts.h"
#include "src/base/os.h"
#include "src/engine/engine.h"

namespace memo {

// Under strict overcommit the child is charged for all that it could write, so that a fork may be
// refused for memory that nobody uses: it is given up before.
//
// Handlers of libraries that were loaded before this one run while the locks are held: what they
// allocate is the next allocator's.
void Engine::before_fork() {
  constexpr auto kForFork = Lock::Patience::kFork;
  ThreadState& thread = t_state;
  if (thread.inside == 0 && opened() && os::counts_commitments()) {
    give_back();
  }
  ++thread.inside;
  std::uint32_t taken = registry_.lock_within(kForFork) ? kRegistry : 0;
  if (opened()) {
    taken |= shared_->store.lock().lock_within(kForFork) ? kStore : 0;
    taken |= shared_->pool.lock().lock_within(kForFork) ? kPool : 0;
  }
  thread.forks = (thread.forks << kForkBits) | taken;
}

void Engine::release_after_fork(std::uint32_t taken) {
  if ((taken & kPool) != 0) {
    shared_->pool.lock().unlock();
  }
  if ((taken & kStore) != 0) {
    shared_->store.lock().unlock();
  }
  if ((taken & kRegistry) != 0) {
    registry_.unlock();
  }
}

void Engine::after_fork_in_parent() {
  ThreadState& thread = t_state;
  const std::uint32_t taken = thread.forks % (1U << kForkBits);
  thread.forks >>= kForkBits;
  release_after_fork(taken);
  --thread.inside;
}

void Engine::after_fork_in_child() {
  mark_.renew();
  ThreadState& thread = t_state;
  const bool interrupted = thread.inside > 1;
  after_fork_in_parent();
  live_on(interrupted);
}

// A child without fork()'s handlers, at its first call that comes here.
void Engine::notice_fork() {
  const NoInterrupts whole;
  const bool interrupted = t_state.inside != 0;
  const RecursionGuard guard;
  mark_.renew();
  live_on(interrupted);
  if (host_.forked != nullptr) {
    host_.forked();
  }
}

// The child's only thread has just begun to live, perhaps in a handler that `interrupted` the
// library. Locks of threads that do not exist are nobody's now; what they guarded may be half
// changed.
void Engine::live_on(bool interrupted) {
  forked_ = true;
  passed_on_.reset();
  if (registry_.held_by_another()) {
    registry_.forget_owner();
    torn_ = !opened();
  }
  if (!opened()) {
    return;
  }
  mend_slabs(*shared_, spaces_ + 1);
  for (std::uint32_t i = 0; i < lane_count(); ++i) {
    if (&lanes_[i] == t_state.lane) {
      interrupted = !lanes_[i].after_fork() || interrupted;
    } else {
      lanes_[i].orphan();
    }
  }
  if (!interrupted) {
    count_slabs(*shared_);
  }
  shared_->store.after_fork(interrupted);
  if (shared_->pool.lock().held_by_another()) {
    shared_->pool.give_up();
  }
  shared_->pool.trim();
}

}  // namespace memo
