// How a thread comes by its lane: at its first large call, or later, where there was none. Hot.
#include <algorithm>
#include <new>

#include "src/base/interrupts.h"
#include "src/base/tuning.h"
#include "src/engine/engine.h"

namespace memo {
// For a thread without a lane: one, if it is time to ask and there is one.
Lane* Engine::find_lane() {
  ThreadState& thread = t_state;
  if (thread.left || options_ == nullptr) {
    return nullptr;
  }
  if (thread.wait != 0) {
    --thread.wait;
    return nullptr;
  }
  const NoInterrupts whole;
  return adopt();
}

Lane* Engine::adopt() {
  const RecursionGuard guard;
  ThreadState& thread = t_state;
  bool busy = false;
  Lane* lane = take_lane(busy);
  if (lane == nullptr) {
    thread.refusals = std::min(thread.refusals, busy ? tuning::kMaxBusy : tuning::kMaxRefusals);
    thread.wait = static_cast<std::uint16_t>(1U << thread.refusals++);
    return nullptr;
  }
  const StackBounds stack = find_stack_bounds();
  lane->follow_thread(stack);
  thread.refusals = 0;
  thread.lane = lane;
  if (host_.opened != nullptr && stack.room() >= tuning::kLoadStack && !told_.exchange(true)) {
    host_.opened(guard);
  }
  if (host_.new_thread != nullptr) {
    host_.new_thread();
  }
  return lane;
}

// A lane that nobody owns, the one left last first, or a new one; nullptr if there is none, or if
// other threads are at it for long, which makes it `busy`.
Lane* Engine::take_lane(bool& busy) {
  const WaitLock held(registry_, Lock::Patience::kFork);
  busy = !held;
  if (busy || (!opened() && (torn_ || !open_region()))) {
    return nullptr;
  }
  const std::uint32_t used = shared_->lane_count.load(std::memory_order_relaxed);
  for (std::uint32_t i = 0; i < used; ++i) {
    if (lanes_[i].vacant()) {
      lanes_[i].enter();
      return &lanes_[i];
    }
  }
  if (used == lanes_possible_) {
    return nullptr;
  }
  Lane* lane = new (lanes_ + used) Lane;
  lane->open(shared_, used, spaces_ + 1 + used);
  lane->enter();
  shared_->lane_count.store(used + 1, std::memory_order_release);
  return lane;
}

}  // namespace memo
