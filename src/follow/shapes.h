// The shapes of one parametric plan, as a stream comes by them: which one the iteration at hand
// has, when another begins, and how often one may be laid out. Hot; one lane's. What a shape's slab
// needs the memory takes that serves from it.
#pragma once

#include <cstdint>

#include "src/follow/cursor.h"
#include "src/follow/layout.h"

namespace memo {

class Shapes {
 public:
  // Makes room for the plan's shapes; false where the system refuses memory.
  bool open(const SymbolicPlan& plan) { return layout_.open(plan); }
  void close() {
    layout_.close();
    other_ = Cursor();
  }
  // The plan that shapes are made of, or nullptr.
  [[nodiscard]] const SymbolicPlan* plan() const { return layout_.plan(); }
  // Of the shape at hand.
  [[nodiscard]] const Schedule* schedule() const { return layout_.schedule(); }
  [[nodiscard]] const ContextIndex* index() const { return layout_.index(); }

  // Takes `steps` off those that may be laid out, which the stream's `calls` so far have earned;
  // false if there are not so many, and the shape at hand has to do.
  bool afford(std::uint32_t steps, std::uint64_t calls);

  // An iteration's first size, and the step of the plan that its next call is.
  struct Start {
    std::uint64_t first = 0;
    StepIndex step;
  };
  // Lays the iteration out; its place in the schedule, or kNoStep if it needs more than `limit`
  // bytes or has no step.
  StepIndex lay_out(const Start& start, std::uint64_t limit);
  // A call for `bytes` at the plan's step `position` begins an iteration of another shape, which
  // needs no more memory than one before and is believed at once: a mistake costs some fallbacks.
  [[nodiscard]] bool begins_another(StepIndex position, std::uint64_t bytes) const {
    return position == StepIndex{0} && bytes != layout_.first() && bytes <= layout_.largest();
  }
  // After a call that has `matched` the shape at hand or not: from one that did not on, whether
  // another shape has begun there. True where one has, which is `start`.
  bool find(std::uint64_t bytes, bool matched, Start& start);

 private:
  Layout layout_;
  Cursor other_;                                      // since a call did not match
  std::uint64_t steps_ = tuning::kMaxPlanBytes / 32;  // that may be laid out now
  std::uint64_t calls_ = 0;                           // when that was worked out
};

}  // namespace memo
