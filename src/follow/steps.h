// The steps of a plan: one for each allocation of an iteration, in order. Fixed, or parametric: the
// same calls each time, with sizes that follow from the size of the first one. Hot to read; views,
// whose memory src/follow/plan.h, or the code that builds a plan, owns.
//
//   fixed         70,000  12,288  4,194,304 ...            size of step i = steps[i].size
//
//   parametric    iteration of 50 tokens:  153,600  153,600  614,400 ...
//                 iteration of 131 tokens: 402,432  402,432  1,609,728 ...
//                                                   size of step i = rule i of the first size
//
// What is kept of a parametric plan's placement is which block lies on which. Whatever the sizes,
// blocks that are alive together are then still apart; src/follow/layout.h makes the addresses.
#pragma once

#include <cstdint>

#include "src/base/tuning.h"
#include "src/base/units.h"

namespace memo {

inline constexpr std::uint64_t kUnplanned = UINT64_MAX;

struct Step {
  std::uint64_t size = 0;             // bytes, must be equal for the step to match
  std::uint64_t offset = kUnplanned;  // bytes from the slab's start, a multiple of kGranule and of
                                      // the alignment; kUnplanned: the block outlives its
                                      // iteration, the pool has it
  std::uint64_t site = 0;             // hash of the call stack when learned, 0 if unknown
  std::uint8_t alignment_log2 = 0;    // the greatest alignment that the learned calls asked for
  std::uint32_t lifetime = 0;         // allocations until it is freed; 0 where unknown
  bool elastic = false;               // a smaller block may have the place, too

  // An elastic place is not given to a block that would leave most of it unused.
  static bool within(std::uint64_t bytes, std::uint64_t place) {
    return bytes <= place && bytes > place / 2;
  }
  // True if a call for `bytes` may be this step.
  [[nodiscard]] bool fits(std::uint64_t bytes) const {
    return bytes == size || (elastic && within(bytes, size));
  }
};

// Bytes as a function of the iteration's first size: a polynomial in Newton's form. Doubles hold
// every size below 2^53 exactly, so that a rule that is exact in rational numbers rounds to the
// right byte.
struct SizeRule {
  double constant = 0;
  double slope = 0;
  double curve = 0;
  double x0 = 0;
  double x1 = 0;

  // 0 where the rule gives nothing or more than any memory.
  [[nodiscard]] std::uint64_t bytes(std::uint64_t first) const {
    const auto x = static_cast<double>(first);
    const double value = constant + (x - x0) * (slope + (x - x1) * curve);
    if (!(value >= 0 && value < static_cast<double>(kMaxBlock))) {
      return 0;
    }
    const auto whole = static_cast<std::uint64_t>(value);
    return value - static_cast<double>(whole) < 0.5 ? whole : whole + 1;
  }
};

struct SymbolicStep {
  SizeRule rule;
  std::uint64_t site = 0;
  std::uint32_t lifetime = 0;  // calls until it is freed
  std::uint8_t alignment_log2 = 0;
  bool elastic = false;  // no rule fits exactly: the rule is an upper limit
  bool planned = true;   // false: the block outlives its iteration
};

// Step `above` lies higher than step `below`, with which it is alive at some time.
struct Support {
  StepIndex above;
  StepIndex below;
};

struct SymbolicPlan {
  const SymbolicStep* steps = nullptr;
  std::uint32_t count = 0;
  const Support* supports = nullptr;  // ordered so that a step's own come before it supports others
  std::uint32_t support_count = 0;
  std::uint64_t least = 0;  // bytes; smaller blocks are not seen by the engine

  [[nodiscard]] const SymbolicStep& at(StepIndex step) const { return steps[step.count()]; }
  [[nodiscard]] StepIndex end() const { return StepIndex{count}; }
  // False for what a file tells: which step lies on which is yet to be made (memo::restore). Such a
  // plan can be followed, but not laid out.
  [[nodiscard]] bool complete() const { return supports != nullptr; }
  // True if a call for `bytes` may be step `step` of the iteration that began with `first`.
  [[nodiscard]] bool fits(StepIndex step, std::uint64_t first, std::uint64_t bytes) const {
    const std::uint64_t ruled = at(step).rule.bytes(first);
    return bytes == ruled || (at(step).elastic && Step::within(bytes, ruled));
  }
  // The engine never sees the step in an iteration that began with `first`.
  [[nodiscard]] bool hidden(StepIndex step, std::uint64_t first) const {
    return at(step).rule.bytes(first) < least;
  }
};

struct Schedule {
  const Step* steps = nullptr;  // steps[0 .. count)
  std::uint32_t count = 0;      // allocations in one iteration, at least 1
  std::uint64_t height = 0;     // bytes of slab that the plan needs, a multiple of kGranule
  // Greatest sum of bytes (as asked for) alive at once, planned steps only.
  std::uint64_t lower_bound = 0;
  double plan_seconds = 0;
  // It is known that no plan is lower, or its maker has searched, or lifetimes are unknown.
  bool lowest = false;
  // If not null, sizes and offsets follow from the iteration's first size, and the steps here are
  // one example.
  const SymbolicPlan* symbolic = nullptr;
  [[nodiscard]] const Step& at(StepIndex step) const { return steps[step.count()]; }
  [[nodiscard]] StepIndex end() const { return StepIndex{count}; }
  // The step that comes `calls` before this one, at most `count`; before the first is the last.
  [[nodiscard]] StepIndex before(StepIndex step, std::uint32_t calls) const {
    return (step + StepIndex{count - calls}) % end();
  }
};

}  // namespace memo
