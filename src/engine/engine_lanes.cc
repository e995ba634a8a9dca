// How a thread comes by its lane: at its first large call, or later, where there was none. Hot.
#include <algorithm>
#include <new>

#include "src/base/interrupts.h"
#include "src/engine/engine.h"

namespace memo {
namespace {

// Plans are read from files and checked with a real stack; a thread with less leaves it to the
// next.
constexpr std::uint64_t kLoadStack = 256ULL << 10;
// A thread that finds no lane asks again after 1, 2, 4, ... and in the end each 256 large calls:
// looking costs a microsecond, and as much again for each of 64 lanes.
constexpr std::uint8_t kMostRefusals = 8;
// The same where another thread was just taking a lane: 1, 2 and then each 4 calls. A dozen threads
// that begin at once wait for the one that reserves the region, and are not to miss 256 calls for it.
constexpr std::uint8_t kMostBusy = 2;

}  // namespace

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
    thread.refusals = std::min(thread.refusals, busy ? kMostBusy : kMostRefusals);
    thread.wait = static_cast<std::uint16_t>(1U << thread.refusals++);
    return nullptr;
  }
  const StackBounds stack = find_stack_bounds();
  lane->follow_thread(stack);
  thread.refusals = 0;
  thread.lane = lane;
  if (host_.opened != nullptr && stack.room() >= kLoadStack && !told_.exchange(true)) {
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
