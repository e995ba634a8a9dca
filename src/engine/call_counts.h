// Counts what becomes of a lane's calls. Hot: its owner counts, anyone reads.
#pragma once

#include <atomic>
#include <cstdint>

#include "src/base/counters.h"

namespace memo {

// Bytes of the blocks that a lane has placed by a plan, or taken from the pool's free memory, since
// it began to serve.
struct Served {
  std::uint64_t planned_bytes = 0;
  std::uint64_t at_hand_bytes = 0;
  std::uint64_t large_bytes = 0;  // asked for meanwhile, served or not
};

class CallCounts {
 public:
  void open(Counters* counters) { counters_ = counters; }
  [[nodiscard]] Counters& counters() const { return *counters_; }
  // From the first plan on, or before it from the first block that the pool had at hand while
  // pooling. Any thread.
  [[nodiscard]] Served served() const {
    if (!serves()) {
      return {};
    }
    const Served now = so_far();
    return {now.planned_bytes - planned_bytes_, now.at_hand_bytes - at_hand_bytes_,
            now.large_bytes - large_bytes_};
  }
  [[nodiscard]] bool serves() const { return serves_.load(std::memory_order_acquire); }
  void forget() { serves_ = planned_ = false; }

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
      begin();
    }
  }
  void begin_pooling() {
    if (!serves()) {
      begin();
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

  [[nodiscard]] Served so_far() const {
    return {counters_->planned_bytes.get(), counters_->at_hand_bytes.get(),
            counters_->large_bytes.get()};
  }
  // What the counters say so far does not count.
  void begin() {
    const Served now = so_far();
    planned_bytes_ = now.planned_bytes;
    at_hand_bytes_ = now.at_hand_bytes;
    large_bytes_ = now.large_bytes;
    serves_ = true;
  }

  Counters* counters_ = nullptr;
  bool planned_ = false;  // a plan was served from
  std::atomic<bool> serves_{false};
  std::atomic<std::uint64_t> planned_bytes_{0};  // when it began, as the next two
  std::atomic<std::uint64_t> at_hand_bytes_{0};
  std::atomic<std::uint64_t> large_bytes_{0};
};

}  // namespace memo
