// What an arena holds, in granules: in use, and free but with memory; and how much of it the peak of the recent past
// lets it keep. Hot. Any thread frees and reads; the rest is the arena's owner's.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "src/base/granule.h"

namespace memo {

class Holding {
 public:
  // `count` granules were taken, of which `dirty` had memory.
  void take(std::uint64_t count, std::uint64_t dirty) {
    const std::uint64_t live = live_.fetch_add(count, std::memory_order_relaxed) + count;
    dirty_.fetch_sub(dirty, std::memory_order_relaxed);
    window_least_ = std::min(window_least_, live - count);
    window_peak_ = std::max(window_peak_, live);
    peak_ = std::max(peak_.load(std::memory_order_relaxed), live);
  }
  // `count` were freed, and kept `dirty` granules' memory. Any thread.
  void free(std::uint64_t count, std::uint64_t dirty) {
    dirty_.fetch_add(dirty, std::memory_order_relaxed);
    live_.fetch_sub(count, std::memory_order_relaxed);
  }
  // The memory of `count` free ones went back to the system.
  void give_back(std::uint64_t count) {
    dirty_.fetch_sub(count, std::memory_order_relaxed);
    purged_.fetch_add(count, std::memory_order_relaxed);
  }

  // How much more than the peak may be kept: Arena::allow_slack().
  void allow_slack(std::uint64_t divisor) { slack_divisor_ = divisor; }
  // What is held beyond what may be kept.
  [[nodiscard]] std::uint64_t excess() const {
    const std::uint64_t held = live() + dirty();
    const std::uint64_t most = most_kept();
    return held > most ? held - most : 0;
  }
  // The past peak is forgotten, or `less` of it.
  void forget() { peak_ = window_peak_ = window_least_ = live(); }
  void forget(std::uint64_t less) {
    const std::uint64_t peak = peak_.load(std::memory_order_relaxed);
    peak_ = std::max(live(), peak - std::min(peak, less));
    window_peak_ = std::min(window_peak_, peak_.load(std::memory_order_relaxed));
  }
  // The peak is this window's from now on, and another begins. What is held beyond what the old one
  // lets be kept.
  std::uint64_t age() {
    const std::uint64_t now = live();
    peak_ = std::max(window_peak_, now);
    const std::uint64_t more = excess();
    window_peak_ = window_least_ = now;
    return more;
  }

  [[nodiscard]] std::uint64_t live() const { return live_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t dirty() const { return dirty_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t live_bytes() const { return live() * kGranule; }
  [[nodiscard]] std::uint64_t dirty_bytes() const { return dirty() * kGranule; }
  [[nodiscard]] std::uint64_t peak_bytes() const {
    return peak_.load(std::memory_order_relaxed) * kGranule;
  }
  [[nodiscard]] std::uint64_t purged_bytes() const {
    return purged_.load(std::memory_order_relaxed) * kGranule;
  }

 private:
  [[nodiscard]] std::uint64_t most_kept() const {
    const std::uint64_t peak = peak_.load(std::memory_order_relaxed);
    const std::uint64_t divisor = slack_divisor_.load(std::memory_order_relaxed);
    return peak + (divisor == 0 || window_least_ >= peak ? 0 : (peak - window_least_) / divisor);
  }

  std::atomic<std::uint64_t> live_{0};
  std::atomic<std::uint64_t> dirty_{0};
  std::atomic<std::uint64_t> peak_{0};       // most alive at once in this and the last window
  std::uint64_t window_peak_ = 0;            // and in this window alone
  std::uint64_t window_least_ = UINT64_MAX;  // least alive before an allocation in this window
  std::atomic<std::uint64_t> slack_divisor_{0};
  std::atomic<std::uint64_t> purged_{0};  // given back so far
};

}  // namespace memo
