// See shapes.h. Hot.
#include "src/follow/shapes.h"

#include <algorithm>

#include "src/base/tuning.h"

namespace memo {

bool Shapes::afford(std::uint32_t steps, std::uint64_t calls) {
  const std::uint64_t earned = calls < calls_ ? 0 : calls - calls_;
  calls_ = calls;
  steps_ = std::min(tuning::kMaxPlanBytes / 32, steps_ + earned * tuning::kCallWork);
  if (steps_ < steps) {
    return false;
  }
  steps_ -= steps;
  return true;
}

StepIndex Shapes::lay_out(const Start& start, std::uint64_t limit) {
  return layout_.lay_out(start.first, limit) ? layout_.position_of(start.step) : kNoStep;
}

bool Shapes::find(std::uint64_t bytes, bool matched, Start& start) {
  if (matched && other_.run() == 0) {
    return false;
  }
  other_.seek(*plan(), bytes);
  if (matched && other_.run() == 1) {
    other_ = Cursor();  // the place was found again without this
    return false;
  }
  if (!other_.sure(*plan(), tuning::kFit)) {
    return false;
  }
  start = {other_.first(), other_.position() % plan()->end()};
  other_ = Cursor();
  return start.first != layout_.first();
}

}  // namespace memo
