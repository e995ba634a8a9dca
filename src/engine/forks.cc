#include "src/engine/forks.h"

#include "src/base/check.h"
#include "src/base/interrupts.h"

namespace memo {

// Handlers of libraries that were loaded before this one run while the locks are held: what they
// allocate is the underlying allocator's.
void Forks::before() {
  constexpr auto kForFork = Lock::Patience::kFork;
  ThreadState& thread = t_state;
  const Lane* mine = my_lane();
  const bool interrupted = thread.inside != 0 || (mine != nullptr && mine->at_work_here());
  ++thread.inside;
  std::uint32_t taken = 0;
  const bool alone = lanes_.host().alone != nullptr && lanes_.host().alone();
  if (!alone && lanes_.opened()) {
    // The child builds the list of free lanes again, so the registry's lock is not needed.
    taken |= lanes_.shared().store.lock().lock_within(kForFork) ? kStore : 0;
    taken |= lanes_.shared().pool.lock_all(kForFork) ? kPool : 0;
  } else if (!alone) {
    taken |= lanes_.registry().lock_within(kForFork) ? kRegistry : 0;
  }
  if (!interrupted && lanes_.opened() && lanes_.mark.is_open() && here()) {
    taken |= wipe_free(alone || (taken & kPool) != 0);
  }
  MEMO_DCHECK(thread.forks >> (32 - kForkBits) == 0);
  thread.forks = (thread.forks << kForkBits) | taken;
}

// What is free holds nothing, but each of its pages would be copied for a child once the process
// writes it again. Other threads' slabs stay as they are: such a thread may claim and write before
// the fork, and the child must have that.
std::uint32_t Forks::wipe_free(bool pool) const {
  Lane* mine = my_lane();
  return (mine != nullptr && mine->wipe_free_on_fork() ? kLane : 0) |
         (pool && lanes_.shared().pool.wipe_free_on_fork() ? kWiped : 0);
}

// What is done for the memory of a child waits for its first call, as all else.
void Forks::let_go(bool in_parent) {
  ThreadState& thread = t_state;
  const std::uint32_t taken = thread.forks % (1U << kForkBits);
  thread.forks >>= kForkBits;
  if ((taken & kWiped) != 0 && in_parent) {
    lanes_.shared().pool.copy_on_fork();
  }
  if ((taken & kLane) != 0) {
    my_lane()->after_wiped(in_parent);
  }
  if ((taken & kPool) != 0) {
    lanes_.shared().pool.unlock_all();
  }
  if ((taken & kStore) != 0) {
    lanes_.shared().store.lock().unlock();
  }
  if ((taken & kRegistry) != 0) {
    lanes_.registry().unlock();
  }
  --thread.inside;
}

void Forks::after_in_parent() {
  let_go(true);
}

void Forks::after_in_child(bool at_once) {
  const bool interrupted = t_state.inside > 1;
  const Lane* mine = my_lane();
  let_go(false);
  if (noticing_.held_by_another()) {
    noticing_.forget_owner();
  }
  if (!at_once && !interrupted && !here() && (mine == nullptr || !mine->at_work_here())) {
    forking_ = mine;
    lanes_.mark.tell();
  } else {
    live_on(mine, interrupted, true);
  }
}

bool Forks::notice() {
  const NoInterrupts whole;
  const bool interrupted = t_state.inside != 0;
  const RecursionGuard guard;
  const WaitLock held(noticing_, Lock::Patience::kFork);
  if (!held) {
    return false;
  }
  if (!here()) {
    const bool told = lanes_.mark.told();
    live_on(told ? forking_ : my_lane(), interrupted, told);
  }
  return true;
}

// The child's only thread has just begun to live, perhaps in a handler that `interrupted` the
// library. Locks of threads that do not exist are nobody's now; what they guarded may be half
// changed.
void Forks::live_on(const Lane* mine, bool interrupted, bool told) {
  forked_ = true;
  lanes_.passed_on.reset();
  lanes_.forget_missing_thread();
  if (lanes_.opened()) {
    take_over(lanes_.shared(), mine, interrupted);
  }
  if (lanes_.host().forked != nullptr) {
    lanes_.host().forked(told);
  }
  lanes_.mark.renew();
}

void Forks::take_over(Shared& shared, const Lane* mine, bool interrupted) {
  // Free memory is marked as it was for the fork, or for another thread's, where a bare clone came
  // between its mark and its end.
  for (std::uint64_t i = 0; i < lanes_.region.count(); ++i) {
    lanes_.region.at(i).copy_on_fork();
  }
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
