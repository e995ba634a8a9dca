// The time that is left. All loops that may be long ask it, once for each piece of work of at most
// some tens of milliseconds at 10^5 nodes. Cold.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>

namespace schedule {

class Deadline {
 public:
  Deadline(double seconds, const std::atomic<bool>* stop)
      : end_(Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                std::chrono::duration<double>(std::min(seconds, kForever)))),
        stop_(stop) {}

  bool passed() const {
    return (stop_ != nullptr && stop_->load(std::memory_order_relaxed)) || Clock::now() >= end_;
  }
  double seconds_left() const {
    return passed() ? 0.0 : std::chrono::duration<double>(end_ - Clock::now()).count();
  }
  // At most `seconds` from now, and not after this one.
  Deadline within(double seconds) const { return {std::min(seconds, seconds_left()), stop_}; }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr double kForever = 1e9;  // seconds; in nanoseconds it fits the clock
  Clock::time_point end_;
  const std::atomic<bool>* stop_;
};

}  // namespace schedule
