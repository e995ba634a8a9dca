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
  if (can_lay_out(schedule.count) && completed() && shapes_.open(*plan_->best()->symbolic) &&
      take_shape({found.first, found.position - 1})) {
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
  if (shapes_.plan() != nullptr || position >= tuning::kBeginning) {
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
  return shapes_.plan() != nullptr ? shapes_.schedule() : plan_->best().get();
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
  placer_.start(schedule, shapes_.plan() != nullptr ? shapes_.index() : &plan_->best().index(),
                Cursor(cursor_.position()));
  placed_ = 0;
  return true;
}

void Lane::drop_plan() {
  placer_.stop();
  following_ = false;
  shapes_.close();
  shared_->store.release(plan_);
  plan_ = nullptr;
}

// Lays out the iteration that begins so.
bool Lane::take_shape(const Shapes::Start& start) {
  const std::uint32_t at = shapes_.lay_out(start, slab_.space().bytes());
  if (at == kNoStep) {
    return false;
  }
  cursor_ = Cursor(at);
  counters.shapes.add();
  return true;
}

void Lane::change_shape(const Shapes::Start& start) {
  if (!can_lay_out(shapes_.plan()->count)) {
    return;
  }
  if (!take_shape(start)) {
    give_plan_up();
  } else if (take_memory(*shapes_.schedule())) {
    placer_.change(shapes_.schedule(), shapes_.index(), cursor_);
  }
}

// Before a call of a symbolic plan; the lane may leave the plan.
void Lane::follow_shape(std::uint64_t size) {
  if (log_.ready() && repeat_.add(size, 0) && repeat_.shift() > shapes_.plan()->count) {
    // The sizes repeat after all, over more calls than the plan's: it was made of a part.
    follower_.distrust(shared_->store.slot_of(plan_), *plan_, true);
    symbolic_ = tuning::kMaxSymbolic;
    diverge();
    return;
  }
  if (shapes_.begins_another(placer_.position(), size)) {
    change_shape({size, 0});
  }
}

// After a call of a symbolic plan.
void Lane::find_shape(std::uint64_t size, bool matched) {
  Shapes::Start start;
  if (shapes_.find(size, matched, start)) {
    change_shape(start);
  }
}

}  // namespace memo
