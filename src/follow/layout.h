// One lane's copy of a symbolic plan, laid out for the iteration at hand. Hot: a pass over the
// steps for each new shape, in memory that is taken once.
#pragma once

#include <cstdint>

#include "src/follow/cursor.h"
#include "src/follow/steps.h"

namespace memo {

class Layout {
 public:
  // Makes room for the plan's shapes; false where the system refuses memory.
  bool open(const SymbolicPlan& plan);
  void close() { plan_ = nullptr; }
  // The plan that shapes are made of, or nullptr.
  [[nodiscard]] const SymbolicPlan* plan() const { return plan_; }

  // Lays the iteration that begins with a block of `first` bytes out; false, and no schedule is
  // valid, if it would need more than `limit` bytes or has no step.
  bool lay_out(std::uint64_t first, std::uint64_t limit);
  [[nodiscard]] std::uint64_t first() const { return first_; }
  // The shape that has needed the most memory so far: its first size.
  [[nodiscard]] std::uint64_t largest() const { return largest_; }

  // Valid after lay_out() until the next.
  [[nodiscard]] const Schedule* schedule() const { return &schedule_; }
  [[nodiscard]] const ContextIndex* index() const { return &index_; }
  // The schedule's step that the plan's step `step` has become, or the one that comes after it.
  [[nodiscard]] StepIndex position_of(StepIndex step) const;

 private:
  std::uint64_t place();
  std::uint64_t load();

  const SymbolicPlan* plan_ = nullptr;
  std::uint64_t first_ = 0;
  std::uint64_t largest_ = 0;
  Schedule schedule_;
  ContextIndex index_;
  std::uint32_t capacity_ = 0;        // steps for which there is room
  Step* steps_ = nullptr;             // the visible ones
  std::uint64_t* sizes_ = nullptr;    // of each step of the plan, bytes
  std::uint64_t* offsets_ = nullptr;  // of each step of the plan; then its load
  std::uint32_t* index_memory_ = nullptr;
};

}  // namespace memo
