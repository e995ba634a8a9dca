// Where a stream of large allocations is in a plan: the only matcher of calls against steps. Hot.
//
// Position first: the next call is taken for the next step, its size always verified. A cursor is
// asked in one of three ways, which differ in what a call does that is not the step expected:
//
//   follow()   the plan is sure, and must stay so    nothing; the caller gives the plan up
//   advance()  the plan is served                    the place is found again, or stays
//   seek()     whether the plan fits is to be seen   the place is found again, or lost
//
// A cursor is a place alone, and holds no pointer: the plan comes with each call, and may end
// before the cursor does. What lies at a step's offset it does not know; the slab says so.
//
// The index by which a place is found again from the last few sizes is made once per schedule.
#pragma once

#include <cstdint>

#include "src/base/tuning.h"
#include "src/follow/steps.h"

namespace memo {

using tuning::kContext;
inline constexpr StepIndex kNoStep = StepIndex::max();

// The sizes of the last calls of a stream.
struct Recent {
  std::uint64_t sizes[kContext] = {};  // bytes, oldest first

  void add(std::uint64_t size) {
    for (std::uint32_t i = 0; i + 1 < kContext; ++i) {
      sizes[i] = sizes[i + 1];
    }
    sizes[kContext - 1] = size;
  }
  [[nodiscard]] std::uint64_t latest() const { return sizes[kContext - 1]; }
};

class ContextIndex {
 public:
  // Number of 32-bit words that build() needs for a schedule of `count` steps.
  static std::uint64_t words(std::uint32_t count);
  // Enters every place of the (cyclic) schedule; `memory` is zeroed, of words(count), and outlives
  // the index.
  void build(const Schedule& schedule, std::uint32_t* memory);

  // The step whose size and whose two predecessors' sizes are `recent` (oldest first), and that
  // comes first at or after `from` in cyclic order; kNoStep if there is none among the first few
  // candidates.
  [[nodiscard]] StepIndex find(const Schedule& schedule, const Recent& recent,
                               StepIndex from) const;

 private:
  std::uint32_t* heads_ = nullptr;  // step + 1 of the first of a chain
  std::uint32_t* next_ = nullptr;   // step + 1 of the next of equal hash
  std::uint32_t mask_ = 0;
};

class Cursor {
 public:
  // Before the step `position`, with no call matched.
  Cursor() = default;
  explicit Cursor(StepIndex position) : position_(position), before_(position) {}

  // The step that comes next. Of a parametric plan it may be its end: the iteration is over.
  [[nodiscard]] StepIndex position() const { return position_; }
  // Calls in a row that were the steps expected, up to the last one; saturates. 0: the place is a
  // guess.
  [[nodiscard]] std::uint32_t run() const { return run_; }
  // Of a parametric plan: the first size of the iteration at hand, bytes.
  [[nodiscard]] std::uint64_t first() const { return first_; }

  // True if a call for `bytes` is the step expected.
  [[nodiscard]] bool expects(const Schedule& schedule, std::uint64_t bytes) const {
    return position_ < schedule.end() && schedule.at(position_).fits(bytes);
  }
  // Goes past the step expected, if the call is that one; else nothing changes.
  bool follow(const Schedule& schedule, std::uint64_t bytes) {
    if (!expects(schedule, bytes)) {
      return false;
    }
    run_ += static_cast<std::uint32_t>(run_ != UINT32_MAX);
    pass(schedule);
    return true;
  }
  // The step that the latest call is, and the cursor is behind it: the expected one, else the next
  // of its size within a few steps, else the one that the last three sizes name. Where several are
  // missing before it, the next call is looked for from the place before as well. nullptr if there
  // is none, and the place stays: an extra or a changed call costs itself alone.
  const Step* advance(const Schedule& schedule, const ContextIndex& index, const Recent& recent) {
    const StepIndex at = position_;
    if (follow(schedule, recent.latest())) [[likely]] {
      return &schedule.at(at);
    }
    return find(schedule, index, recent);
  }
  // The same where the place is not known: a call that is no step loses it.
  void seek(const Schedule& schedule, const ContextIndex& index, const Recent& recent);

  // Of a parametric plan: the place and the first size at once. A call that is not the step
  // expected may begin an iteration.
  void seek(const SymbolicPlan& plan, std::uint64_t bytes);
  // The last calls, `run` of them or a whole iteration, not all of one size, are the plan's.
  [[nodiscard]] bool sure(const SymbolicPlan& plan, std::uint32_t run) const {
    return varied_ && run_ >= (run < plan.count ? run : plan.count);
  }

 private:
  const Step* find(const Schedule& schedule, const ContextIndex& index, const Recent& recent);
  void pass(const Schedule& schedule) {
    if (++position_ == schedule.end()) {
      position_ = StepIndex{0};
    }
  }
  bool pass_hidden(const SymbolicPlan& plan);

  std::uint64_t first_ = 0;
  StepIndex position_;
  std::uint32_t run_ = 0;
  StepIndex before_;     // of a guess: the step that was expected then
  bool varied_ = false;  // the run's calls were of different sizes
};

}  // namespace memo
