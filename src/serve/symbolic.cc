// See symbolic.h. Hot.
#include "src/serve/symbolic.h"

namespace memo {

void ShapePlace::advance(const SymbolicPlan& plan, std::uint64_t bytes) {
  if (run_ != 0) {
    while (step_ < plan.count && plan.hidden(step_, first_)) {
      ++step_;
    }
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
