// Follows each call of a stream through the plan that it is served from: the cursor finds the step,
// and the plan's health is kept. Hot; one lane's. Whether a step's place is free it does not know;
// the slab says so.
#pragma once

#include <cstdint>

#include "src/follow/cursor.h"
#include "src/follow/health.h"

namespace memo {

// Why a call was not placed; kNone if it was.
enum class Miss : std::uint8_t { kNone, kSize, kOrder, kAlignment, kOccupied, kLeftOut };

class Placer {
 public:
  // Serves `schedule` from the cursor's place on. Both outlive the placer's use of them.
  void start(const Schedule* schedule, const ContextIndex* index, Cursor at) {
    *this = Placer();
    change(schedule, index, at);
  }
  // Goes on with another layout of the same plan; what is being judged stays.
  void change(const Schedule* schedule, const ContextIndex* index, Cursor at) {
    schedule_ = schedule;
    index_ = index;
    cursor_ = at;
  }
  void stop() { schedule_ = nullptr; }

  // The step that the stream's next call is, whether or not that has a place; nullptr if it is
  // none, for why_no_step().
  const Step* next(std::uint64_t size) {
    recent_.add(size);
    const Step* step = cursor_.advance(*schedule_, *index_, recent_);
    health_.note(step != nullptr, size, schedule_->count);
    return step;
  }
  // The same for a call that is the step expected, where that has a place; else nullptr, and
  // nothing has changed.
  const Step* next_expected(std::uint64_t size) {
    const Step* step = &schedule_->at(cursor_.position());
    if (step->offset == kUnplanned || !cursor_.follow(*schedule_, size)) {
      return nullptr;
    }
    recent_.add(size);
    health_.note(true, size, schedule_->count);
    return step;
  }
  // The call's step has a place, where an older block lies.
  void note_in_the_way(std::uint64_t size) { health_.note_in_the_way(size); }
  [[nodiscard]] Miss why_no_step() const {
    return health_.misses_in_row() <= 1 ? Miss::kSize : Miss::kOrder;
  }
  // The last call's step ended an iteration, if it was one.
  [[nodiscard]] bool wrapped() const { return cursor_.position() == StepIndex{0}; }

  [[nodiscard]] const Schedule* schedule() const { return schedule_; }
  [[nodiscard]] StepIndex position() const { return cursor_.position(); }
  // The last call's step is a guess. Such a call is to have no place: it may be an extra one, whose
  // block stays for good and would be in others' way in each iteration.
  [[nodiscard]] bool guesses() const { return !expected(1); }
  // The last `calls` were the steps expected, one after the other.
  [[nodiscard]] bool expected(std::uint32_t calls) const { return cursor_.run() >= calls; }
  // The last calls were the steps expected, at least as many as the plan has.
  [[nodiscard]] bool walked_through() const { return expected(schedule_->count); }
  [[nodiscard]] const Health& health() const { return health_; }

 private:
  const Schedule* schedule_ = nullptr;
  const ContextIndex* index_ = nullptr;
  Cursor cursor_;
  Recent recent_;
  Health health_;
};

}  // namespace memo
