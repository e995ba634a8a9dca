// Counts what becomes of a lane's calls. Hot: its owner counts, anyone reads.
#pragma once

#include <cstdint>

#include "src/base/counters.h"
#include "src/engine/served.h"

namespace memo {

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
