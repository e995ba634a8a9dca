// The most of something in the recent past: between one and two windows of time. Hot; any thread.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "src/base/tuning.h"
#include "src/base/units.h"

namespace memo {

class RecentPeak {
 public:
  // It is `value` now, by a clock that does not go back. The most of late, this among it. Of threads
  // that come at the same moment one's value may be missed.
  std::uint64_t note(std::uint64_t value, Nanos now) {
    Nanos begun = begun_.load(std::memory_order_relaxed);
    if (now > begun + tuning::kSpareWindow && begun_.compare_exchange_strong(begun, now)) {
      const bool follows = now <= begun + tuning::kSpareWindow + tuning::kSpareWindow;
      const std::uint64_t last = most_.exchange(0, std::memory_order_relaxed);
      before_.store(follows ? last : 0, std::memory_order_relaxed);
    }
    std::uint64_t most = most_.load(std::memory_order_relaxed);
    while (value > most && !most_.compare_exchange_weak(most, value, std::memory_order_relaxed)) {
    }
    return std::max({value, most, before_.load(std::memory_order_relaxed)});
  }

 private:
  std::atomic<Nanos> begun_;
  std::atomic<std::uint64_t> most_{0};    // in this window
  std::atomic<std::uint64_t> before_{0};  // in the last one
};

}  // namespace memo
