// Counts what becomes of a lane's calls. Hot: its owner counts, anyone reads.
#pragma once

#include <atomic>
#include <cstdint>

#include "src/base/counters.h"

namespace memo {

// What was served, by a plan or from memory at hand, since a lane began to serve.
struct Served {
  std::uint64_t planned_bytes = 0;
  std::uint64_t at_hand_bytes = 0;
  std::uint64_t large_bytes = 0;  // asked for meanwhile, served or not
};

class ServedSince {
 public:
  // What the counters say so far does not count.
  void begin(const Counters& counters) {
    const Served now = served(counters);
    planned_bytes_ = now.planned_bytes;
    at_hand_bytes_ = now.at_hand_bytes;
    large_bytes_ = now.large_bytes;
    begun_ = true;
  }
  [[nodiscard]] bool begun() const { return begun_.load(std::memory_order_relaxed); }
  void reset() { begun_ = false; }
  // Nothing before begin().
  [[nodiscard]] Served get(const Counters& counters) const {
    if (!begun_) {
      return {};
    }
    const Served now = served(counters);
    return {now.planned_bytes - planned_bytes_, now.at_hand_bytes - at_hand_bytes_,
            now.large_bytes - large_bytes_};
  }

 private:
  static Served served(const Counters& counters) {
    return {counters.planned_bytes.get(), counters.at_hand_bytes.get(), counters.large_bytes.get()};
  }
  std::atomic<bool> begun_{false};
  std::atomic<std::uint64_t> planned_bytes_{0};
  std::atomic<std::uint64_t> at_hand_bytes_{0};
  std::atomic<std::uint64_t> large_bytes_{0};
};

class Tally {
 public:
  void open(Counters* counters) { counters_ = counters; }
  [[nodiscard]] Counters& counters() const { return *counters_; }
  // From the first plan on, or before it from the first block that the pool had at hand while
  // pooling. Any thread.
  [[nodiscard]] Served served() const { return since_.get(*counters_); }
  [[nodiscard]] bool serves() const { return since_.begun(); }
  void forget() {
    since_.reset();
    planned_ = false;
  }

  // Each call ends in exactly one of these three, in which the large ones are counted too: a
  // handler that jumps out of a call leaves the sums equal.
  void planned(std::uint64_t bytes) {
    count(bytes);
    counters_->planned_allocations.add();
    counters_->planned_bytes.add(bytes);
  }
  void at_hand(std::uint64_t bytes) {
    count(bytes);
    counters_->at_hand_allocations.add();
    counters_->at_hand_bytes.add(bytes);
  }
  void other(std::uint64_t bytes) {
    count(bytes);
    counters_->other_allocations.add();
    counters_->other_bytes.add(bytes);
  }

  // What the pool did before the first plan is no part of what plans are judged by.
  void begin_plans() {
    if (!planned_) {
      planned_ = true;
      since_.begin(*counters_);
    }
  }
  void begin_pooling() {
    if (!since_.begun()) {
      since_.begin(*counters_);
    }
  }
  void fallback(std::uint64_t bytes, Counter Counters::* reason) {
    counters_->fallback_allocations.add();
    counters_->fallback_bytes.add(bytes);
    (counters_->*reason).add();
  }

 private:
  void count(std::uint64_t bytes) {
    counters_->large_allocations.add();
    counters_->large_bytes.add(bytes);
  }

  Counters* counters_ = nullptr;
  ServedSince since_;
  bool planned_ = false;  // a plan was served from
};

}  // namespace memo
