// Whether the blocks of a stream live as long as those of a plan that another process has made:
// sizes and order alone do not tell training from inference. Seen in the
// plan's first iteration, in which nothing but its own blocks lies in the slab. Hot; one lane's.
#pragma once

#include <cstdint>

#include "src/follow/placer.h"
#include "src/follow/steps.h"

namespace memo {

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

}  // namespace memo
