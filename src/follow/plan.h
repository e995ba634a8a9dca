// A plan and all that belongs to it, in one piece of memory: the only owner of steps. Immutable;
// any number of lanes read it at once. Hot to read, made by src/learn and src/io.
//
//   | Body: the schedule, the index | steps | parametric: rules, supports | else: the index |
#pragma once

#include <cstdint>

#include "src/follow/cursor.h"
#include "src/follow/steps.h"

namespace memo {

class Plan {
 public:
  Plan() = default;  // empty
  // A plan of what `schedule` refers to, copied, its symbolic plan included. Empty where the system
  // refuses memory.
  static Plan copy_of(const Schedule& schedule);

  Plan(Plan&& other) noexcept : body_(other.body_) { other.body_ = nullptr; }
  Plan& operator=(Plan&& other) noexcept;
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;
  ~Plan() { free(); }

  explicit operator bool() const { return body_ != nullptr; }
  // Null where the plan is empty. It stays where it is when the plan is moved.
  [[nodiscard]] const Schedule* get() const {
    return body_ != nullptr ? &body_->schedule : nullptr;
  }
  const Schedule& operator*() const { return body_->schedule; }
  const Schedule* operator->() const { return &body_->schedule; }
  // Of a fixed plan.
  [[nodiscard]] const ContextIndex& index() const { return body_->index; }

 private:
  struct Body {
    Schedule schedule;
    SymbolicPlan symbolic;
    ContextIndex index;
    std::uint64_t bytes = 0;  // of the whole piece
  };
  void free();

  Body* body_ = nullptr;
};

}  // namespace memo
