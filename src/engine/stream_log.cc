// See stream_log.h. Hot.
#include "src/engine/stream_log.h"

#include <algorithm>

#include "src/base/os.h"

namespace memo {

bool StreamLog::prepare(bool trace) {
  if (ready_.load(std::memory_order_relaxed)) {
    return true;
  }
  const std::uint64_t bytes = 2 * sizeof(std::uint32_t) * tuning::kMaxLog;
  auto* history = static_cast<std::uint32_t*>(os::map(bytes));
  if (history == nullptr) {
    return false;
  }
  if (!recorder.prepare(trace ? tuning::kMaxTrace : tuning::kMaxLog, trace)) {
    os::unmap(history, bytes);
    return false;
  }
  history_ = history;
  ready_.store(true, std::memory_order_release);
  return true;
}

bool StreamLog::prepare_again(bool trace) {
  if (refusals_.waits()) {
    return false;
  }
  if (!prepare(trace)) {
    refusals_.refused(tuning::kMaxWait);
    return false;
  }
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
