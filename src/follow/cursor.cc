// See cursor.h. Hot.
#include "src/follow/cursor.h"

#include <algorithm>
#include <bit>

#include "src/base/tuning.h"

namespace memo {
namespace {

std::uint64_t hash(const std::uint64_t (&sizes)[kContext]) {
  std::uint64_t mixed = 0;
  for (const std::uint64_t size : sizes) {
    mixed = (std::rotl(mixed, 23) ^ size) * 0x9E3779B97F4A7C15ULL;  // the golden ratio's multiplier
  }
  return mixed ^ (mixed >> 32);
}

void context_of(const Schedule& schedule, StepIndex step, std::uint64_t (&sizes)[kContext]) {
  for (std::uint32_t i = 0; i < kContext; ++i) {
    const StepIndex back = StepIndex{kContext - 1 - i} % schedule.end();
    sizes[i] = schedule.at((step + schedule.end() - back) % schedule.end()).size;
  }
}

}  // namespace

std::uint64_t ContextIndex::words(std::uint32_t count) {
  return std::bit_ceil(std::uint64_t{count} * 2) + count;
}

void ContextIndex::build(const Schedule& schedule, std::uint32_t* memory) {
  const std::uint64_t slots = words(schedule.count) - schedule.count;
  heads_ = memory;
  next_ = memory + slots;
  mask_ = static_cast<std::uint32_t>(slots - 1);
  for (std::uint32_t step = schedule.count; step-- > 0;) {  // backwards, so that chains ascend
    std::uint64_t sizes[kContext];
    context_of(schedule, StepIndex{step}, sizes);
    std::uint32_t& head = heads_[hash(sizes) & mask_];
    next_[step] = head;
    head = step + 1;
  }
}

StepIndex ContextIndex::find(const Schedule& schedule, const Recent& recent, StepIndex from) const {
  StepIndex first = kNoStep;
  std::uint64_t candidates = 0;
  for (std::uint32_t at = heads_[hash(recent.sizes) & mask_];
       at != 0 && candidates < tuning::kCallWork; at = next_[at - 1], ++candidates) {
    const StepIndex step{at - 1};
    std::uint64_t sizes[kContext];
    context_of(schedule, step, sizes);
    bool equal = true;
    for (std::uint32_t i = 0; i < kContext; ++i) {
      equal = equal && sizes[i] == recent.sizes[i];
    }
    if (!equal) {
      continue;
    }
    if (step >= from) {
      return step;
    }
    if (first == kNoStep) {
      first = step;
    }
  }
  return first;
}

// The step that the call is most likely to be, if any is likely. Behind a gap that is a guess:
// extra calls have sizes of steps, too, and would lead further from the place one by one.
const Step* Cursor::find(const Schedule& schedule, const ContextIndex& index,
                         const Recent& recent) {
  const StepIndex end = schedule.end();
  const StepIndex from = run_ != 0 ? position_ : before_;
  StepIndex found = kNoStep;
  run_ = 0;
  before_ = from;
  for (StepIndex gap; gap <= std::min(tuning::kMaxSkipped, end - StepIndex{1}); ++gap) {
    const StepIndex step = (from + gap) % end;
    if (schedule.at(step).size == recent.latest()) {
      found = step;
      run_ = gap < StepIndex{kContext} ? 1 : 0;
      break;
    }
  }
  if (found == kNoStep) {
    found = index.find(schedule, recent, position_);
    if (found == kNoStep) {
      return nullptr;
    }
    before_ = (found + StepIndex{1}) % end;
  }
  position_ = found;
  pass(schedule);
  return &schedule.at(found);
}

void Cursor::seek(const Schedule& schedule, const ContextIndex& index, const Recent& recent) {
  if (follow(schedule, recent.latest())) {
    return;
  }
  position_ = index.find(schedule, recent, StepIndex{0});
  run_ = 0;
  if (position_ != kNoStep) {
    run_ = kContext;
    pass(schedule);
  }
}

// Past the steps that the engine does not see; false where there are so many that the place is
// lost. Of a plan from a file nearly all may be hidden, for ever.
bool Cursor::pass_hidden(const SymbolicPlan& plan) {
  const StepIndex most{4 * tuning::kCallWork};
  const StepIndex end = position_ + std::min(most, plan.end() - position_);
  while (position_ < end && plan.hidden(position_, first_)) {
    ++position_;
  }
  return position_ < end || end == plan.end();
}

void Cursor::seek(const SymbolicPlan& plan, std::uint64_t bytes) {
  if (run_ != 0 && pass_hidden(plan)) {
    if (position_ == plan.end()) {  // the iteration is over, and this call begins the next
      first_ = bytes;
      position_ = StepIndex{1};
      ++run_;
      return;
    }
    if (plan.fits(position_, first_, bytes)) {
      ++position_;
      ++run_;
      varied_ = varied_ || bytes != first_;
      return;
    }
  }
  first_ = bytes;
  position_ = StepIndex{1};
  run_ = 1;
  varied_ = false;
}

}  // namespace memo
