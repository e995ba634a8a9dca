// See placer.h. Hot.
#include "src/follow/placer.h"

namespace memo {

// The window is over.
void Health::judge() {
  const bool poor =
      misses_ * tuning::kPoorCalls > calls_ || missed_bytes_ * tuning::kManyBytes > bytes_;
  kept_out_ = !poor && (missed_bytes_ + kept_out_bytes_) * 2 > bytes_;
  poor_windows_ = poor || kept_out_ ? poor_windows_ + 1 : 0;
  lost_ = misses_ * 2 > calls_ || misses_in_row_ >= max_in_row() || unfit();
  calls_ = misses_ = 0;
  bytes_ = missed_bytes_ = kept_out_bytes_ = 0;
}

}  // namespace memo
