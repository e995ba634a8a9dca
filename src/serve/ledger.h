// The books of all arenas of a process: how much is alive, how much free memory is kept, and how
// much may be. Hot, lock-free; shared by threads, so it is written once per pooled block and never
// on the slab's path.
//
// The bound is the process', not a thread's: what one thread has freed counts against what another
// takes.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace memo {

class Ledger {
 public:
  // `count` granules become alive, `dirty` of which had memory. Answers by how many granules alive
  // and kept together now pass what may be kept: the peak, and one part in `slack_divisor` (0:
  // none) of what comes and goes (the peak less the least alive in the window).
  std::uint64_t take(std::uint64_t count, std::uint64_t dirty, std::uint64_t slack_divisor) {
    const std::uint64_t live = live_.fetch_add(count, std::memory_order_relaxed) + count;
    const std::uint64_t kept = dirty_.fetch_sub(dirty, std::memory_order_relaxed) - dirty;
    raise(peak_, live);
    raise(window_peak_, live);
    std::uint64_t least = window_least_.load(std::memory_order_relaxed);
    while (live - count < least &&
           !window_least_.compare_exchange_weak(least, live - count, std::memory_order_relaxed)) {
    }
    const std::uint64_t most = most_kept(slack_divisor);
    return live + kept > most ? live + kept - most : 0;
  }
  // `count` granules are free, with memory behind them.
  void free(std::uint64_t count) {
    dirty_.fetch_add(count, std::memory_order_relaxed);
    live_.fetch_sub(count, std::memory_order_relaxed);
  }
  // The memory of `count` free granules was given back.
  void purge(std::uint64_t count) { dirty_.fetch_sub(count, std::memory_order_relaxed); }

  // The past is forgotten: what is alive now is the peak.
  void forget_peak() {
    const std::uint64_t live = live_.load(std::memory_order_relaxed);
    peak_ = window_peak_ = window_least_ = live;
  }
  // A window ends: the peak is the greater of the window's and what is alive. The granules kept
  // beyond.
  std::uint64_t age(std::uint64_t slack_divisor) {
    const std::uint64_t live = live_.load(std::memory_order_relaxed);
    peak_ = std::max(window_peak_.load(std::memory_order_relaxed), live);
    const std::uint64_t most = most_kept(slack_divisor);
    window_peak_ = window_least_ = live;
    const std::uint64_t all = live + dirty_.load(std::memory_order_relaxed);
    return all > most ? all - most : 0;
  }

  [[nodiscard]] std::uint64_t peak() const { return peak_.load(std::memory_order_relaxed); }

 private:
  static void raise(std::atomic<std::uint64_t>& most, std::uint64_t value) {
    std::uint64_t seen = most.load(std::memory_order_relaxed);
    while (seen < value && !most.compare_exchange_weak(seen, value, std::memory_order_relaxed)) {
    }
  }
  [[nodiscard]] std::uint64_t most_kept(std::uint64_t slack_divisor) const {
    const std::uint64_t peak = this->peak();
    const std::uint64_t least = window_least_.load(std::memory_order_relaxed);
    return peak + (slack_divisor == 0 || least >= peak ? 0 : (peak - least) / slack_divisor);
  }

  std::atomic<std::uint64_t> live_{0};         // granules in use
  std::atomic<std::uint64_t> dirty_{0};        // granules free, with memory behind them
  std::atomic<std::uint64_t> peak_{0};         // most alive at once in this and the last window
  std::atomic<std::uint64_t> window_peak_{0};  // and in this window alone
  std::atomic<std::uint64_t> window_least_{UINT64_MAX};
};

}  // namespace memo
