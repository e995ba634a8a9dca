// See demand.h. Hot.
#include "src/engine/demand.h"

namespace memo {

Demand::Look Demand::look(std::uint64_t peak) {
  same_peak_ = peak == last_peak_ ? same_peak_ + 1 : 0;
  last_peak_ = peak;
  ++searched_;
  if (peak > searched_peak_ + searched_peak_ / tuning::kNewLoop) {
    searched_peak_ = peak;
    searched_ = short_windows_ = 0;
    return Look::kNewLoop;
  }
  const bool learned = searched_ >= tuning::kPoolWindow && same_peak_ >= tuning::kPoolWindow / 2;
  return learned ? Look::kLearned : Look::kNothing;
}

void Demand::judge(std::uint64_t bytes, bool at_hand) {
  window_bytes_ += bytes;
  window_lacked_ += at_hand ? 0 : bytes;
  if (++window_calls_ == tuning::kPoolWindow) {
    short_windows_ += window_lacked_ > window_bytes_ / tuning::kShortShare ? 1 : 0;
    window_calls_ = 0;
    window_bytes_ = window_lacked_ = 0;
  }
}

}  // namespace memo
