// A plan for iterations of changing shape: the same calls each time, with sizes that follow from
// the size of the first one. Hot to read; made once by src/learn, immutable, shared by any lanes.
//
//   iteration of 50 tokens   153,600  153,600  614,400  ...      size of step i = rule i (first
//   size) iteration of 131 tokens  402,432  402,432  1,609,728 ...
//
// What is kept of the placement is which block lies on which. Whatever the sizes, blocks that are
// alive together are then still apart; the addresses follow in one pass.
#pragma once

#include <cstdint>

#include "src/base/tuning.h"
#include "src/serve/schedule.h"

namespace memo {

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
    if (!(value >= 0 && value < static_cast<double>(tuning::kMaxBlock))) {
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
  std::uint32_t above = 0;
  std::uint32_t below = 0;
};

struct SymbolicPlan {
  const SymbolicStep* steps = nullptr;
  std::uint32_t count = 0;
  const Support* supports = nullptr;  // ordered so that a step's own come before it supports others
  std::uint32_t support_count = 0;
  std::uint64_t least = 0;  // bytes; smaller blocks are not seen by the engine

  // False for what a file tells: which step lies on which is yet to be made (memo::restore). Such a
  // plan can be followed, but not laid out.
  [[nodiscard]] bool complete() const { return supports != nullptr; }
  // True if a call for `bytes` may be step `step` of the iteration that began with `first`.
  [[nodiscard]] bool fits(std::uint32_t step, std::uint64_t first, std::uint64_t bytes) const {
    const std::uint64_t ruled = steps[step].rule.bytes(first);
    return bytes == ruled || (steps[step].elastic && within(bytes, ruled));
  }
  // An elastic slot is not given to a block that would leave most of it unused.
  static bool within(std::uint64_t bytes, std::uint64_t slot) {
    return bytes <= slot && bytes > slot / 2;
  }
  // The engine never sees the step in an iteration that began with `first`.
  [[nodiscard]] bool hidden(std::uint32_t step, std::uint64_t first) const {
    return steps[step].rule.bytes(first) < least;
  }
};

// Follows a symbolic plan along a stream: which step is next, and what the iteration's first size
// was.
class ShapePlace {
 public:
  // The stream's next call.
  void advance(const SymbolicPlan& plan, std::uint64_t bytes);
  // The last calls, `run` of them or a whole iteration, not all of one size, are the plan's.
  [[nodiscard]] bool sure(const SymbolicPlan& plan, std::uint32_t run) const {
    return varied_ && run_ >= (run < plan.count ? run : plan.count);
  }
  [[nodiscard]] std::uint64_t first() const { return first_; }
  [[nodiscard]] std::uint32_t step() const { return step_; }  // of the call before, plus one
  [[nodiscard]] std::uint32_t run() const { return run_; }    // calls in a row that fitted

 private:
  std::uint64_t first_ = 0;
  std::uint32_t step_ = 0;
  std::uint32_t run_ = 0;
  bool varied_ = false;
};

}  // namespace memo
