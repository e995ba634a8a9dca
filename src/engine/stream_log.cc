// See stream_log.h. Hot.
#include "src/engine/stream_log.h"

#include <algorithm>

namespace memo {

bool StreamLog::take_memory(bool trace) {
  if (refusals_.waits()) {
    return false;
  }
  if (!sizes.reserve(tuning::kMaxLog) || !sites.reserve(tuning::kMaxLog) || !sizes.grow(1) ||
      !sites.grow(1) || !recorder.prepare(trace ? 16 * tuning::kMaxLog : tuning::kMaxLog, trace)) {
    sizes.release();
    sites.release();
    refusals_.refused(tuning::kMaxWait);
    return false;
  }
  ready_.store(true, std::memory_order_release);
  return true;
}

void StreamLog::mark() {
  if (mark_count_ == tuning::kMaxMarks) {
    std::copy(marks_ + tuning::kMaxMarks / 2, marks_ + tuning::kMaxMarks, marks_);
    mark_count_ = tuning::kMaxMarks / 2;
  }
  marks_[mark_count_++] = recorder.count();
}

}  // namespace memo
