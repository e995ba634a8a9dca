// Whether a plan is believed: what the stream has shown for it and against it, what is made of it
// when it is left, and what the next one must show. Hot; one lane's, and it touches no memory. The
// table of it is confidence.def.
//
//   taken up ->  on trial   calls are noted as before, and the first wrong one may end it
//            ->  believed   until Health, the first iteration or the stream's own loop say no
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>

#include "src/engine/knowledge.h"
#include "src/follow/placer.h"
#include "src/follow/repeat.h"

namespace memo {

// Whether the blocks of a stream live as long as those of a plan that another process has made:
// sizes and order alone do not tell training from inference. Seen in the plan's first iteration, in
// which nothing but its own blocks lies in the slab.
class FirstIteration {
 public:
  FirstIteration() = default;
  // Of a plan of `count` steps.
  explicit FirstIteration(std::uint32_t count) : left_(count) {}

  // Nothing more is to be learned of it.
  [[nodiscard]] bool is_over() const { return left_ == 0 && !differs(); }
  // What became of a call: placed, or why not.
  void note(Miss miss) {
    if (left_ == 0) {
      return;
    }
    --left_;
    in_row_ = miss == Miss::kNone ? in_row_ + 1 : 0;
    placed_ += miss == Miss::kNone ? 1U : 0U;
    in_the_way_ += miss == Miss::kOccupied ? 1U : 0U;
  }

  // For the call before the step `next`: the offset of a block that was placed kLivedCalls before
  // it and is alive yet by the plan; kUnplanned if there is none, or its lifetime is not known.
  [[nodiscard]] std::uint64_t alive_at(const Schedule& schedule, StepIndex next) const {
    constexpr std::uint32_t kAge = tuning::kLivedCalls;
    if (left_ == 0 || in_row_ < kAge || schedule.count <= kAge) {
      return kUnplanned;
    }
    const Step& step = schedule.at(schedule.before(next, kAge + 1));
    return step.lifetime > kAge ? step.offset : kUnplanned;
  }
  // Whether the block there is alive.
  void note_alive(bool alive) {
    ++looked_at_;
    gone_ += alive ? 0U : 1U;
  }

  // The stream's blocks live longer, and lie where the plan has others by then, or are gone sooner,
  // and leave memory for nobody.
  [[nodiscard]] bool differs() const {
    return (in_the_way_ >= tuning::kLivedCalls && in_the_way_ * 2 > placed_) ||
           (gone_ >= tuning::kLivedCalls && gone_ * 2 > looked_at_);
  }

 private:
  std::uint32_t left_ = 0;  // calls of the iteration
  std::uint32_t placed_ = 0;
  std::uint32_t in_row_ = 0;  // placed, up to the last call
  std::uint32_t in_the_way_ = 0;
  std::uint32_t looked_at_ = 0;
  std::uint32_t gone_ = 0;
};

enum class Evidence : std::uint8_t {
#define EVIDENCE(name, fault, text) name,
#include "src/engine/confidence.def"
};
enum class Standing : std::uint8_t {
#define STANDING(name, evidence, verdict, next) name,
#include "src/engine/confidence.def"
};
// What a loop has shown, what is made of it, and what is needed next: words of the table.
struct StandingWords {
  std::string_view evidence;
  std::string_view verdict;
  std::string_view next;
};
StandingWords words_of(Standing standing);
// Of a plan that was left.
StandingWords words_of(Evidence evidence);

// What is made of a plan that is left.
struct Judgement {
  std::uint32_t verdict = 0;  // a sum of Verdict
  bool gives_back =
      false;           // the slab goes now, or the next loop's learning would come on top of it
  bool tried = false;  // it was a trial of this stream's own loop, which goes on being noted
  std::optional<std::uint32_t>
      run;  // calls that it has served, as what the next loop must show follows
};

class Confidence {
 public:
  // A plan is taken up: made of this stream (`own`) or found, and then `strange` if no iteration of
  // it has come in this process. It is to place `trial` calls before it is believed.
  void adopt(bool own, bool strange, std::uint32_t trial) {
    own_ = own;
    strange_ = strange;
    trial_ = trial;
  }
  // It is served from now on, in iterations of `count` calls.
  void begin(std::uint32_t count) {
    placed_ = 0;
    first = FirstIteration(strange_ ? count : 0);
  }
  // No plan is served. What trials have shown is kept.
  void leave() {
    trial_ = 0;
    first = FirstIteration();
  }
  // Nothing is known of the stream any more; what a search has cost still counts.
  void forget() {
    adopt(false, false, 0);
    begin(0);
    trials_lost_ = lost_length_ = 0;
  }

  void note_placed() { ++placed_; }
  // All of the plan has come in order.
  void note_walked() { strange_ = false; }
  // At the end of an iteration: true once, if the trial is over, and the plan believed.
  bool ends_trial() {
    if (trial_ == 0 || placed_ < trial_) {
      return false;
    }
    trial_ = 0;
    trials_lost_ = own_ ? 0 : trials_lost_;
    return true;
  }

  [[nodiscard]] bool on_trial() const { return trial_ != 0; }
  [[nodiscard]] bool tries_own() const { return trial_ != 0 && own_; }
  [[nodiscard]] bool own() const { return own_; }
  // No iteration of the plan has come in this process yet.
  [[nodiscard]] bool strange() const { return strange_; }
  // Calls placed since the plan was taken up.
  [[nodiscard]] std::uint64_t placed() const { return placed_; }

  // After a call that had no place: what speaks against the plan, if it is enough.
  [[nodiscard]] std::optional<Evidence> after_miss(const Health& health) const;
  // Judges a plan that is left. `iteration`: calls of one iteration. `height`: bytes of its slab.
  // `required`: calls that had to repeat before it was made. `moves`: this call is a realloc.
  Judgement judge(Evidence evidence, std::uint32_t iteration, std::uint64_t height,
                  std::uint32_t required, bool moves);
  // If the plan is on trial, that is over, and true if it was one of this stream: the next must
  // show more.
  bool lose_trial(std::uint32_t iteration, std::uint64_t height, bool moves);

  // In how many copies a loop must have come to be tried; 0: none is.
  [[nodiscard]] std::uint32_t copies_to_try(const Repeat& sizes) const {
    if (trials_lost_ + 1 >= tuning::kNoMoreTrials) {
      return 0;
    }
    const std::uint32_t shifts = sizes.shifts_to_try();
    return sizes.shift() == lost_length_ ? shifts << trials_lost_ : shifts;
  }
  // How tall a slab may be that is taken on trial. `got`: bytes that the pool had to get, 0 if it
  // has had them for the loop's latest copy. A lost trial has cost a slab, and as much that the
  // pool had given for it: all of them together never cost more than the pool has got.
  [[nodiscard]] std::uint64_t bytes_to_try(std::uint64_t got) const {
    const std::uint64_t most = std::max(tuning::kTrialBytes, got);
    return sub_sat(most, 2 * lost_bytes_);
  }
  [[nodiscard]] std::uint32_t trials_lost() const { return trials_lost_; }

  FirstIteration first;  // of a strange plan

 private:
  bool own_ = false;
  bool strange_ = false;
  std::uint32_t trial_ = 0;  // calls to place before it is believed; 0: it is
  std::uint64_t placed_ = 0;
  std::uint32_t trials_lost_ = 0;  // in a row
  std::uint32_t lost_length_ = 0;  // calls of the latest of those
  std::uint64_t lost_bytes_ = 0;   // of the slabs of all
};

}  // namespace memo
