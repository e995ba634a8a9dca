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
  void take(Granules count, Granules dirty) {
    const Granules before{live_.fetch_add(count.count(), std::memory_order_relaxed)};
    const Granules live = before + count;
    dirty_.fetch_sub(dirty.count(), std::memory_order_relaxed);
    window_least_ = std::min(window_least_, before);
    least_ = std::min(least_, before);
    window_before_ = window_peak_;
    window_peak_ = std::max(window_peak_, live);
    const Granules peak = peak_.load(std::memory_order_relaxed);
    least_since_peak_ = live > peak ? live : std::min(least_since_peak_, before);
    peak_before_ = live > peak ? peak : Granules::max();
    peak_ = std::max(peak, live);
  }
  // `count` were freed, and kept `dirty` granules' memory. Any thread.
  void free(Granules count, Granules dirty) {
    dirty_.fetch_add(dirty.count(), std::memory_order_relaxed);
    live_.fetch_sub(count.count(), std::memory_order_relaxed);
  }
  // The block taken last has raised the peak.
  [[nodiscard]] bool raised() const {
    return peak_before_.load(std::memory_order_relaxed) != Granules::max();
  }
  // Of those in use `count`, which are about to be freed, lose their memory to that block: if it has raised the peak, both together
  // need not have; else false. What other threads take until the old one is freed counts on top of both.
  bool carried(Granules count) {
    if (!raised()) {
      return false;
    }
    const Granules without = live() - std::min(live(), count);
    peak_ = std::min(peak_.load(std::memory_order_relaxed),
                     std::max(peak_before_.load(std::memory_order_relaxed), without));
    window_peak_ = std::min(window_peak_, std::max(window_before_, without));
    peak_before_ = Granules::max();
    return true;
  }
  // The memory of `count` free ones went back to the system.
  void give_back(Granules count) {
    dirty_.fetch_sub(count.count(), std::memory_order_relaxed);
    purged_.fetch_add(count.count(), std::memory_order_relaxed);
  }

  // How much more than the peak may be kept, as the part 1 / divisor of what comes and goes (the peak less the least alive in the
  // window); 0: nothing. `loop`: only where nothing is allowed so far, of what comes and goes since
  // the peak last grew: a loop's weights, which come before it, do not.
  void allow_slack(std::uint64_t divisor, bool loop = false) {
    std::uint64_t none = 0;
    if (!loop) {
      slack_divisor_.store(divisor, std::memory_order_relaxed);
      of_loop_ = false;
    } else if (slack_divisor_.compare_exchange_strong(none, divisor, std::memory_order_relaxed)) {
      of_loop_ = true;
    }
  }
  // What is held beyond what may be kept. What is free is never more than the peak.
  [[nodiscard]] Granules excess() const {
    const Granules free = dirty();
    const Granules held = live() + free;
    return std::max(held - std::min(held, most_kept()),
                    free - std::min(free, peak_.load(std::memory_order_relaxed)));
  }
  // The past peak is forgotten, or `less` of it.
  void forget() { peak_ = window_peak_ = window_least_ = least_ = least_since_peak_ = live(); }
  void forget(Granules less) {
    const Granules peak = peak_.load(std::memory_order_relaxed);
    peak_ = std::max(live(), peak - std::min(peak, less));
    window_peak_ = std::min(window_peak_, peak_.load(std::memory_order_relaxed));
  }
  // The peak is this window's from now on, and another begins. What is held beyond what the old one
  // lets be kept.
  Granules age() {
    const Granules now = live();
    peak_ = std::max(window_peak_, now);
    least_ = std::min(window_least_, now);
    const Granules more = excess();
    window_peak_ = window_least_ = now;
    return more;
  }

  [[nodiscard]] Granules live() const { return Granules{live_.load(std::memory_order_relaxed)}; }
  [[nodiscard]] Granules dirty() const { return Granules{dirty_.load(std::memory_order_relaxed)}; }
  [[nodiscard]] std::uint64_t live_bytes() const { return bytes_of(live()); }
  [[nodiscard]] std::uint64_t dirty_bytes() const { return bytes_of(dirty()); }
  [[nodiscard]] std::uint64_t peak_bytes() const {
    return bytes_of(peak_.load(std::memory_order_relaxed));
  }
  [[nodiscard]] std::uint64_t purged_bytes() const {
    return bytes_of(Granules{purged_.load(std::memory_order_relaxed)});
  }

 private:
  [[nodiscard]] Granules most_kept() const {
    const Granules peak = peak_.load(std::memory_order_relaxed);
    const std::uint64_t divisor = slack_divisor_.load(std::memory_order_relaxed);
    const Granules least = of_loop_ ? std::max(least_, least_since_peak_) : least_;
    return peak + (divisor == 0 || least >= peak ? Granules{0} : (peak - least) / divisor);
  }

  // Granules, as plain numbers: no atomic adds to a type of ours.
  std::atomic<std::uint64_t> live_{0};
  std::atomic<std::uint64_t> dirty_{0};
  std::atomic<std::uint64_t> purged_{0};  // given back so far
  std::atomic<Granules> peak_;            // most alive at once in this and the last window
  std::atomic<Granules> peak_before_{
      Granules::max()};                         // before the last allocation, if that has raised it
  Granules window_peak_;                        // and in this window alone
  Granules window_before_;                      // the same before the last allocation
  Granules least_{Granules::max()};             // least alive before an allocation, as the peak
  Granules window_least_{Granules::max()};      // and in this window alone
  Granules least_since_peak_{Granules::max()};  // least alive since the peak last grew
  std::atomic<std::uint64_t> slack_divisor_{0};
  std::atomic<bool> of_loop_{false};  // the slack is a loop's
};

}  // namespace memo
