// What the pool's arenas hold together, in granules: in use, and free but with memory; and how much
// of it the peak of the recent past lets them keep. Hot. Any thread, for a block of its own; where
// several take one at once, the peak may miss a part of them, until the next one. What is written
// at every call is one word, and what few calls write lies apart from it: threads of other arenas
// read that.
//
// The peak is of memory, not of what is asked for: of a block of which only a part is expected to
// be written, the rest is spared.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "src/base/units.h"

namespace memo {

// The most of something, in granules, in this window of time and the last.
class PeakOf {
 public:
  [[nodiscard]] Granules get() const { return peak_.load(std::memory_order_relaxed); }
  // The latest note has raised it.
  [[nodiscard]] bool raised() const {
    return before_.load(std::memory_order_relaxed) != Granules::max();
  }
  void note(Granules now) {
    const Granules peak = get();
    const Granules window = window_.load(std::memory_order_relaxed);
    if (now > peak) {
      window_before_.store(window, std::memory_order_relaxed);
      before_.store(peak, std::memory_order_relaxed);
      peak_.store(now, std::memory_order_relaxed);
    } else if (raised()) {
      before_.store(Granules::max(), std::memory_order_relaxed);
    }
    if (now > window) {
      window_.store(now, std::memory_order_relaxed);
    }
  }
  // The latest note is taken back if it has raised it: it is `now`.
  void unnote(Granules now) {
    if (!raised()) {
      return;
    }
    peak_ = std::min(get(), std::max(before_.load(std::memory_order_relaxed), now));
    window_ = std::min(window_.load(), std::max(window_before_.load(), now));
    before_ = Granules::max();
  }
  // It was `less` too high, and `in_window` in this window.
  void lower(Granules less, Granules in_window, Granules now) {
    peak_ = std::max(now, sub_sat(get(), less));
    const Granules window = window_;
    window_ = std::max(now, sub_sat(window, in_window));
  }
  // `less` of what was before this window is forgotten.
  void forget(Granules less, Granules now) {
    peak_ = std::max(now, sub_sat(get(), less));
    window_ = std::min(window_.load(), get());
  }
  void age(Granules now) {
    peak_ = std::max(window_.load(), now);
    window_ = now;
  }

 private:
  std::atomic<Granules> peak_;
  std::atomic<Granules> before_{Granules::max()};  // before the latest note, if that has raised it
  std::atomic<Granules> window_;
  std::atomic<Granules> window_before_;  // as before_
};

class HeldMemory {
 public:
  // `count` granules were taken, of which `dirty` had memory, and `spared` will not be written;
  // `stale` of these had some. By how much that has raised the peak.
  Granules take(Granules count, Granules dirty, Granules spared = {}, Granules stale = {}) {
    const Granules written = count - spared;
    const Granules before = in_memory_of(both_.fetch_add(
        written.count() - (dirty.count() << kDirtyShift), std::memory_order_relaxed));
    if (spared != Granules{0}) {
      spared_.fetch_add(spared.count(), std::memory_order_relaxed);
    }
    if (stale != Granules{0}) {
      stale_.fetch_add(stale.count(), std::memory_order_relaxed);
    }
    const Granules now = before + written;
    correct(before);
    lower(window_least_, before);
    lower(least_, before);
    if (now > peak_.get()) {
      least_since_peak_.store(now, std::memory_order_relaxed);
    } else {
      lower(least_since_peak_, before);
    }
    const Granules peak = peak_.get();
    peak_.note(now);
    asked_.note(live());
    return sub_sat(now, peak);
  }
  // `count` were freed, of which `spared` and `stale` were, and kept `dirty` granules' memory. Any
  // thread.
  void free(Granules count, Granules dirty, Granules spared = {}, Granules stale = {}) {
    both_.fetch_add((dirty.count() << kDirtyShift) - (count - spared).count(),
                    std::memory_order_relaxed);
    if (spared != Granules{0}) {
      spared_.fetch_sub(spared.count(), std::memory_order_relaxed);
    }
    renew(stale);
  }
  // Of blocks in use so many more are spared, or as a negative number fewer.
  void spare(std::uint64_t granules) {
    spared_.fetch_add(granules, std::memory_order_relaxed);
    both_.fetch_sub(granules, std::memory_order_relaxed);
  }
  // Of blocks in use `stale` ones have no memory any more, or count as written.
  void renew(Granules stale) {
    if (stale != Granules{0}) {
      stale_.fetch_sub(stale.count(), std::memory_order_relaxed);
    }
  }
  // A block that is freed had `count` fewer in memory than it counted for, of which the peak has
  // `of_peak`. Any thread.
  void overestimated(Granules count, Granules of_peak) {
    if (count != Granules{0}) {  // of_peak is no more
      over_.fetch_add(of_peak.count(), std::memory_order_relaxed);
      over_in_window_.fetch_add(count.count(), std::memory_order_relaxed);
    }
  }
  // The block taken last has raised the peak.
  [[nodiscard]] bool raised() const { return peak_.raised(); }
  // Of those in use `count`, which are about to be freed, lose their memory to that block: if it
  // has raised the peak, both together need not have. What other threads take until the old one is
  // freed counts on top of both.
  void carried(Granules count) {
    peak_.unnote(sub_sat(in_memory(), count));
    asked_.unnote(sub_sat(live(), count));
  }
  // The memory of `count` free ones went back to the system.
  void give_back(Granules count) {
    both_.fetch_sub(count.count() << kDirtyShift, std::memory_order_relaxed);
    purged_.fetch_add(count.count(), std::memory_order_relaxed);
  }

  // How much more than the peak may be kept, as the part 1 / divisor of what comes and goes (the
  // peak less the least alive in the window); 0: nothing. `loop`: only where nothing is allowed so
  // far, of what comes and goes since the peak last grew: a loop's weights, which come before it,
  // do not.
  void allow_slack(std::uint64_t divisor, bool loop = false) {
    std::uint64_t none = 0;
    if (!loop) {
      slack_divisor_.store(divisor, std::memory_order_relaxed);
      of_loop_ = false;
    } else if (slack_divisor_.compare_exchange_strong(none, divisor, std::memory_order_relaxed)) {
      of_loop_ = true;
    }
  }
  // What is held beyond what may be kept. What is free is never more than the peak. `freed`: if a
  // block that counts for so many granules left `dirty` ones.
  [[nodiscard]] Granules excess(Granules freed = {}, Granules dirty = {}) const {
    const Granules free = this->dirty() + dirty;
    const Granules used = in_memory() + stale();
    const Granules held = sub_sat(used, freed) + free;
    return std::max(sub_sat(held, most_kept()), sub_sat(free, peak_.get()));
  }
  // The past peak is forgotten, or `less` of it. What is held beyond what may be kept from now on.
  Granules forget(Granules less = Granules::max()) {
    const Granules now = in_memory();
    if (less == Granules::max()) {
      window_least_ = now;
      least_ = now;
      least_since_peak_ = now;
    }
    peak_.forget(less, now);
    asked_.forget(less, live());
    return excess();
  }
  // The peak is this window's from now on, and another begins. What is held beyond what the old one
  // lets be kept.
  Granules age() {
    const Granules now = in_memory();
    peak_.age(now);
    least_ = std::min(window_least_.load(), now);
    const Granules more = excess();
    asked_.age(live());
    window_least_ = now;
    return more;
  }

  [[nodiscard]] Granules live() const {
    return in_memory() + Granules{spared_.load(std::memory_order_relaxed)};
  }
  // Of what is in use.
  [[nodiscard]] Granules in_memory() const {
    return in_memory_of(both_.load(std::memory_order_relaxed));
  }
  [[nodiscard]] Granules dirty() const {
    return Granules{both_.load(std::memory_order_relaxed) >> kDirtyShift};
  }
  [[nodiscard]] Granules stale() const { return Granules{stale_.load(std::memory_order_relaxed)}; }
  [[nodiscard]] std::uint64_t live_bytes() const { return bytes_of(live()); }
  [[nodiscard]] std::uint64_t dirty_bytes() const { return bytes_of(dirty()); }
  [[nodiscard]] Granules peak() const { return peak_.get(); }
  [[nodiscard]] std::uint64_t peak_bytes() const { return bytes_of(peak()); }
  // The most that was in use at once, as it was asked for.
  [[nodiscard]] std::uint64_t asked_peak_bytes() const { return bytes_of(asked_.get()); }
  [[nodiscard]] std::uint64_t purged_bytes() const {
    return bytes_of(Granules{purged_.load(std::memory_order_relaxed)});
  }

 private:
  void correct(Granules live) {
    if (over_in_window_.load(std::memory_order_relaxed) != 0) [[unlikely]] {
      // Once, should another thread correct at the same time.
      const Granules in_window{over_in_window_.exchange(0, std::memory_order_relaxed)};
      if (in_window != Granules{0}) {
        peak_.lower(Granules{over_.exchange(0, std::memory_order_relaxed)}, in_window, live);
      }
    }
  }
  [[nodiscard]] Granules most_kept() const {
    const Granules peak = peak_.get();
    const std::uint64_t divisor = slack_divisor_.load(std::memory_order_relaxed);
    const Granules least =
        of_loop_ ? std::max(least_.load(), least_since_peak_.load()) : least_.load();
    return peak + (divisor == 0 || least >= peak ? Granules{0} : (peak - least) / divisor);
  }

  // What is in use and not spared, and above it what is free and dirty. One word, so that a free
  // beside take() can make no peak that never was. 2^32 granules of each are more than the arenas
  // have addresses.
  static constexpr unsigned kDirtyShift = 32;
  static Granules in_memory_of(std::uint64_t both) { return Granules{both & UINT32_MAX}; }
  static void lower(std::atomic<Granules>& least, Granules now) {
    if (now < least.load(std::memory_order_relaxed)) {
      least.store(now, std::memory_order_relaxed);
    }
  }

  // Granules, as plain numbers: no atomic adds to a type of ours.
  alignas(64) std::atomic<std::uint64_t> both_{0};
  alignas(64) std::atomic<std::uint64_t> spared_{0};  // of those in use
  std::atomic<std::uint64_t> stale_{0};               // of the spared ones, with memory
  std::atomic<std::uint64_t> over_{0};                // that the peak is too high
  std::atomic<std::uint64_t> over_in_window_{0};      // and that of this window
  std::atomic<std::uint64_t> purged_{0};              // given back so far
  PeakOf peak_;                                       // most in memory at once, of what is in use
  PeakOf asked_;                                      // most in use at once
  std::atomic<Granules> least_{Granules::max()};  // least alive before an allocation, as the peak
  std::atomic<Granules> window_least_{Granules::max()};      // and in this window alone
  std::atomic<Granules> least_since_peak_{Granules::max()};  // least alive since the peak last grew
  std::atomic<std::uint64_t> slack_divisor_{0};
  std::atomic<bool> of_loop_{false};  // the slack is a loop's
};

}  // namespace memo
