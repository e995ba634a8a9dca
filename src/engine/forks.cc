#include "src/engine/forks.h"

#include "src/base/interrupts.h"

namespace memo {

// Handlers of libraries that were loaded before this one run while the locks are held: what they
// allocate is the underlying allocator's.
void Forks::before() {
  constexpr auto kForFork = Lock::Patience::kFork;
  ThreadState& thread = t_state;
  ++thread.inside;
  std::uint32_t taken = lanes_.registry().lock_within(kForFork) ? kRegistry : 0;
  if (lanes_.opened()) {
    taken |= lanes_.shared().store.lock().lock_within(kForFork) ? kStore : 0;
    taken |= lanes_.shared().pool.lock_all(kForFork) ? kPool : 0;
  }
  thread.forks = (thread.forks << kForkBits) | taken;
}

void Forks::release(std::uint32_t taken) {
  if ((taken & kPool) != 0) {
    lanes_.shared().pool.unlock_all();
  }
  if ((taken & kStore) != 0) {
    lanes_.shared().store.lock().unlock();
  }
  if ((taken & kRegistry) != 0) {
    lanes_.registry().unlock();
  }
}

void Forks::after_in_parent() {
  ThreadState& thread = t_state;
  const std::uint32_t taken = thread.forks % (1U << kForkBits);
  thread.forks >>= kForkBits;
  release(taken);
  --thread.inside;
}

void Forks::after_in_child() {
  lanes_.mark.renew();
  const bool interrupted = t_state.inside > 1;
  after_in_parent();
  live_on(interrupted);
}

void Forks::notice() {
  const NoInterrupts whole;
  const bool interrupted = t_state.inside != 0;
  const RecursionGuard guard;
  lanes_.mark.renew();
  live_on(interrupted);
  if (lanes_.host().forked != nullptr) {
    lanes_.host().forked();
  }
}

// The child's only thread has just begun to live, perhaps in a handler that `interrupted` the
// library. Locks of threads that do not exist are nobody's now; what they guarded may be half
// changed.
void Forks::live_on(bool interrupted) {
  forked_ = true;
  lanes_.passed_on.reset();
  lanes_.forget_missing_thread();
  if (!lanes_.opened()) {
    return;
  }
  Shared& shared = lanes_.shared();
  const Lane* mine = my_lane();
  shared.slabs.orphan(lanes_.number_of(mine));
  for (std::uint32_t i = 0; i < lanes_.count(); ++i) {
    Lane& lane = lanes_.at(i);
    if (&lane == mine) {
      interrupted = !lane.after_fork() || interrupted;
    } else {
      lane.orphan();
    }
  }
  lanes_.forget_threads(mine);
  if (!interrupted) {
    shared.slabs.count_bytes();
  }
  shared.store.after_fork(interrupted);
  shared.pool.after_fork();
  shared.pool.trim();
}

}  // namespace memo
