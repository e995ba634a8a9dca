// What a lane keeps of its stream while it learns: the recorder, the history of sizes and of call
// sites, and the told iterations. Hot: its owner notes, any thread enters a death, and where the
// system has refused the memory, it is asked again.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>

#include "src/base/backoff.h"
#include "src/base/growing_array.h"
#include "src/base/tuning.h"
#include "src/trace/recorder.h"

namespace memo {

class StreamLog {
 public:
  // For a log without memory: takes it; false where the system refuses it, which is then asked
  // seldom. `trace`: for a whole trace.
  bool take_memory(bool trace);
  // The next try is not put off: for a thread that has been refused nothing.
  void forget_refusals() { refusals_.restart(); }
  // There is memory. Any thread.
  [[nodiscard]] bool ready() const { return ready_.load(std::memory_order_acquire); }
  // The latest tokens of sizes and of call sites, once there is memory: what Repeat::start() takes,
  // with room for tuning::kMaxLog each.
  GrowingArray<std::uint32_t> sizes;
  GrowingArray<std::uint32_t> sites;

  // The host begins an iteration: kept until forget_marks(), the latest ones at least.
  void mark();
  void forget_marks() { mark_count_ = 0; }
  // Allocations recorded before each told iteration.
  [[nodiscard]] std::span<const std::uint32_t> marks() const { return {marks_, mark_count_}; }

  Recorder recorder;

 private:
  std::atomic<bool> ready_{false};
  Backoff refusals_;
  std::uint32_t marks_[tuning::kMaxMarks] = {};
  std::uint32_t mark_count_ = 0;
};

}  // namespace memo
