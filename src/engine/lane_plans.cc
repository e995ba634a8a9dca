// How a lane takes a plan up, follows its shapes, goes over to another and drops it. Hot.
#include <algorithm>

#include "src/base/tuning.h"
#include "src/engine/lane.h"

namespace memo {
void Lane::follow_known_plans(std::uint64_t size) {
  const Follower::Found found = follower_.next(shared_->store, size);
  if (found.plan != nullptr && take_plan(found)) {
    start_serving();
  }
}

// Ties the lane to a plan that has fitted, at the step that the call at hand is; false where the
// plan's shape cannot be laid out.
bool Lane::take_plan(const Follower::Found& found) {
  plan_ = found.plan;
  const Schedule& schedule = *plan_->made;
  if (schedule.symbolic == nullptr) {
    // The call at hand is the step before the one that comes next.
    cursor_ = Cursor((found.position + schedule.count - 1) % schedule.count);
    return true;
  }
  if (can_lay_out(schedule.count) && completed() && layout_.open(*plan_->best()->symbolic) &&
      take_shape(found.first, found.position - 1)) {
    return true;
  }
  drop_plan();
  return false;
}

bool Lane::completed() {
  const RecursionGuard guard;
  return stack_.room() >= tuning::kLoadStack && shared_->store.complete(guard, *plan_);
}

// At the beginning of an iteration a plan that begins as this one does is believed at once, since a
// network's first blocks are its largest ones; the plans are followed all the same. True if there
// is one.
bool Lane::guess_plan(std::uint64_t size) {
  const std::uint32_t position = placer_.position();
  if (layout_.plan() != nullptr || position >= tuning::kBeginning) {
    return false;
  }
  StoredPlan* other = shared_->store.take_beginning(*plan_->made, position, size);
  if (other == nullptr) {
    return false;
  }
  drop_plan();
  plan_ = other;
  cursor_ = Cursor(position);
  begin_plan();
  return true;
}

// While serving, from a call that did not match on until the plan is found again: a program that
// goes to and fro between shapes is met by the other shape's plan as soon as that fits. True if the
// plan has changed; the next call of the placer is then the one at hand, or if that has `matched`,
// the one after it.
bool Lane::follow_other_plans(std::uint64_t size, bool matched) {
  const bool first = !following_;
  following_ = true;
  const Follower::Found found = follower_.next(shared_->store, size, plan_);
  if (found.plan == nullptr) {
    const bool guessed = first && !matched && guess_plan(size);
    following_ = true;
    return guessed;
  }
  following_ = false;
  follower_.restart();
  if (found.plan == plan_) {
    shared_->store.release(found.plan);
    return false;
  }
  drop_plan();
  if (!take_plan(found)) {  // which has dropped it
    set_phase(Phase::kPooling);
    return true;
  }
  if (matched) {
    cursor_ = Cursor((cursor_.position() + 1) % serving_schedule()->count);
  }
  begin_plan();
  return true;
}

// What the lane's plan is served from, for the iteration at hand.
const Schedule* Lane::serving_schedule() const {
  return layout_.plan() != nullptr ? layout_.schedule() : plan_->best().get();
}

// Memory for what is to be served from; without it the plan is dropped.
bool Lane::take_memory(const Schedule& schedule) {
  if (!open_slab(schedule)) {
    give_plan_up();
    return false;
  }
  bound_ = std::max(bound_.load(std::memory_order_relaxed), schedule.lower_bound);
  return true;
}

void Lane::give_plan_up() {
  drop_plan();
  set_phase(Phase::kPooling);
}

// Serves from the plan's step at cursor_ on, if there is memory for it.
bool Lane::begin_plan() {
  const Schedule* schedule = serving_schedule();
  if (!take_memory(*schedule)) {
    return false;
  }
  placer_.start(schedule, layout_.plan() != nullptr ? layout_.index() : &plan_->best().index(),
                Cursor(cursor_.position()));
  placed_ = 0;
  return true;
}

void Lane::drop_plan() {
  placer_.stop();
  following_ = false;
  layout_.close();
  other_shape_ = Cursor();
  shared_->store.release(plan_);
  plan_ = nullptr;
}

// Lays out the iteration that began with `first` bytes; its place is the plan's step `step`.
bool Lane::take_shape(std::uint64_t first, std::uint32_t step) {
  if (!layout_.lay_out(first, slab_space_->bytes())) {
    return false;
  }
  cursor_ = Cursor(layout_.position_of(step));
  counters.shapes.add();
  return true;
}

// Takes the steps off those that the calls so far have earned; false if there are not so many, and
// the shape at hand has to do.
bool Lane::can_lay_out(std::uint32_t steps) {
  const std::uint64_t calls = counters.large_allocations.get();
  const std::uint64_t earned = calls < layout_calls_ ? 0 : (calls - layout_calls_);
  layout_calls_ = calls;
  layout_steps_ =
      std::min(tuning::kMaxLayoutSteps, layout_steps_ + earned * tuning::kLayoutStepsPerCall);
  if (layout_steps_ < steps) {
    return false;
  }
  layout_steps_ -= steps;
  return true;
}

void Lane::change_shape(std::uint64_t first, std::uint32_t step) {
  if (!can_lay_out(layout_.plan()->count)) {
    return;
  }
  if (!take_shape(first, step)) {
    give_plan_up();
  } else if (take_memory(*layout_.schedule())) {
    placer_.change(layout_.schedule(), layout_.index(), cursor_);
  }
}

// Before a call of a symbolic plan; the lane may leave the plan. At the beginning of an iteration a
// shape that needs no more memory than one before is believed at its first call: a mistake costs
// some fallbacks.
void Lane::follow_shape(std::uint64_t size) {
  if (learns_.load(std::memory_order_relaxed) && repeat_.add(size, 0) &&
      repeat_.shift() > layout_.plan()->count) {
    // The sizes repeat after all, over more calls than the plan's: it was made of a part.
    follower_.distrust(shared_->store.slot_of(plan_), *plan_, true);
    symbolic_ = tuning::kMaxSymbolic;
    diverge();
    return;
  }
  if (placer_.position() == 0 && size != layout_.first() && size <= layout_.largest()) {
    change_shape(size, 0);
  }
}

// After a call of a symbolic plan. From a call that did not match on, it is looked whether another
// shape has begun there.
void Lane::find_shape(std::uint64_t size, bool matched) {
  if (matched && other_shape_.run() == 0) {
    return;
  }
  const SymbolicPlan& plan = *layout_.plan();
  other_shape_.seek(plan, size);
  if (matched && other_shape_.run() == 1) {
    other_shape_ = Cursor();  // the placer has found the place by itself
  } else if (other_shape_.sure(plan, tuning::kFit)) {
    if (other_shape_.first() != layout_.first()) {
      change_shape(other_shape_.first(), other_shape_.position() % plan.count);
    }
    other_shape_ = Cursor();
  }
}

}  // namespace memo
