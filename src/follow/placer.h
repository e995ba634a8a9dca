// Follows each call of a stream through the plan that it is served from: the cursor finds the step,
// and the plan's health is kept. Hot; one lane's. Whether a step's place is free it does not know;
// the slab says so.
#pragma once

#include <cstdint>

#include "src/base/tuning.h"
#include "src/follow/cursor.h"

namespace memo {

// Whether a stream still is the plan's that it is served from: counts what matched and what did
// not, in windows.
class Health {
 public:
  // A call for `bytes`, of a plan of `count` steps, has `matched` one of them or none.
  void note(bool matched, std::uint64_t bytes, std::uint32_t count) {
    ++calls_;
    bytes_ += bytes;
    if (matched) [[likely]] {
      misses_in_row_ = 0;
    } else {
      ++misses_;
      missed_bytes_ += bytes;
      ++misses_in_row_;
    }
    if (calls_ >= (count < tuning::kJudgedCalls ? tuning::kJudgedCalls : count) ||
        misses_in_row_ >= max_in_row()) {
      judge();
    }
  }
  // The call noted last has matched, and an older block lies in its place.
  void note_in_the_way(std::uint64_t bytes) { kept_out_bytes_ += bytes; }
  [[nodiscard]] std::uint32_t misses_in_row() const { return misses_in_row_; }
  // True when most of the last iteration's calls (at least kJudgedCalls) did not match, or many in
  // a row, or many calls or bytes in each of several iterations, or when most bytes of each of them
  // had no place: the program has changed.
  [[nodiscard]] bool lost() const { return lost_; }
  // Lost for one of the latter reasons: the plan is another program's, which shares a part with
  // this one, or its sizes alone.
  [[nodiscard]] bool unfit() const { return poor_windows_ >= tuning::kMaxPoorWindows; }
  // Unfit, and its sizes are this program's: the blocks live longer than the plan's.
  [[nodiscard]] bool outlived() const { return unfit() && kept_out_; }

 private:
  void judge();
  // Misses in a row that end the plan at once: longer than a detour between two matching calls.
  static std::uint32_t max_in_row() { return tuning::kMaxPoorWindows * tuning::kJudgedCalls; }

  std::uint32_t calls_ = 0;   // in the current window
  std::uint32_t misses_ = 0;  // of these
  std::uint64_t bytes_ = 0;   // of its calls
  std::uint64_t missed_bytes_ = 0;
  std::uint64_t kept_out_bytes_ = 0;
  std::uint32_t misses_in_row_ = 0;
  std::uint32_t poor_windows_ = 0;  // in a row
  bool kept_out_ = false;           // the last poor window was so for blocks in the way alone
  bool lost_ = false;
};

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
  // none.
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
  // Why the last call has no place in the plan, in which it is `step` or none; kNone: it has one. A
  // guess is to have none: it may be an extra call, whose block stays for good and would be in
  // others' way in each iteration.
  [[nodiscard]] Miss why_no_place(const Step* step) const {
    if (step == nullptr) {
      return health_.misses_in_row() <= 1 ? Miss::kSize : Miss::kOrder;
    }
    const Miss guessed = expected(1) ? Miss::kNone : Miss::kOrder;
    return step->offset == kUnplanned ? Miss::kLeftOut : guessed;
  }
  // The last call's step ended an iteration, if it was one.
  [[nodiscard]] bool wrapped() const { return cursor_.position() == StepIndex{0}; }

  [[nodiscard]] const Schedule* schedule() const { return schedule_; }
  [[nodiscard]] StepIndex position() const { return cursor_.position(); }
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
