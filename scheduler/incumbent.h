// The best order so far and the best bound so far: what strategies share. Cold.
#pragma once

#include <string>
#include <string_view>

#include "schedule/schedule.h"
#include "scheduler/deadline.h"
#include "scheduler/runner.h"

namespace schedule {

class Incumbent {
 public:
  // Starts with the order as given, which must be topological.
  Incumbent(const Problem& problem, Order order)
      : order_(std::move(order)), peak_(peak_of(problem, order_)) {}

  const Order& order() const { return order_; }
  Bytes peak() const { return peak_; }
  Bytes bound() const { return bound_; }
  bool closed() const { return bound_ >= peak_; }  // the order is proved optimal
  const std::string& found_by() const { return found_by_; }

  // Keeps the order if it is lower; with a plan that places its tensors, also if it is as low.
  // Answers whether it was kept.
  bool offer(const Order& order, Bytes peak, std::string_view by,
             std::optional<dsa::Plan> placed = std::nullopt) {
    if (placed ? peak > peak_ : peak >= peak_) {
      return false;
    }
    order_ = order;
    peak_ = peak;
    found_by_ = by;
    plan = std::move(placed);
    report();
    return true;
  }
  // No order can be lower than `bound`.
  void raise_bound(Bytes bound) {
    if (bound > bound_) {
      bound_ = std::min(bound, peak_);
      report();
    }
  }

  std::function<void(std::string_view, Bytes, Bytes)> progress;
  std::optional<dsa::Plan> plan;  // by a strategy that places as well, for order()

 private:
  void report() const {
    if (progress) {
      progress(found_by_, peak_, bound_);
    }
  }

  Order order_;
  Bytes peak_ = 0;
  Bytes bound_ = 0;
  std::string found_by_ = "framework";
};

}  // namespace schedule
