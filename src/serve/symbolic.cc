// See symbolic.h. Hot.
#include "src/serve/symbolic.h"

#include <algorithm>

namespace memo {

void ShapePlace::advance(const SymbolicPlan& plan, std::uint64_t bytes) {
  // Of a plan from a file nearly all steps may be hidden, for ever: the search for the next one
  // ends early, and the place is lost.
  const std::uint32_t end = step_ + std::min(tuning::kMaxHidden, plan.count - step_);
  while (run_ != 0 && step_ < end && plan.hidden(step_, first_)) {
    ++step_;
  }
  if (run_ != 0 && (step_ < end || end == plan.count)) {
    if (step_ == plan.count) {  // the iteration is over, and this call begins the next
      first_ = bytes;
      step_ = 1;
      ++run_;
      return;
    }
    if (plan.fits(step_, first_, bytes)) {
      ++step_;
      ++run_;
      varied_ = varied_ || bytes != first_;
      return;
    }
  }
  first_ = bytes;
  step_ = run_ = 1;
  varied_ = false;
}

}  // namespace memo
