// What every strategy is: a function from a model to offsets, within a budget. Cold.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <ctime>
#include <optional>
#include <string_view>
#include <vector>

#include "dsa/planner.h"
#include "planner/model.h"

namespace dsa {

using Offsets = std::vector<Offset>;  // by item

// The time that only goes on. Where it is refused, by a library in front of the C library's, it is
// 0 in every thread; std::chrono::steady_clock is then whatever lies on the stack.
struct Clock {
  using duration = std::chrono::nanoseconds;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<Clock>;
  static time_point now() noexcept {
    timespec time{};
    const bool told = clock_gettime(CLOCK_MONOTONIC, &time) == 0;
    return time_point(told ? std::chrono::seconds(time.tv_sec) + duration(time.tv_nsec)
                           : duration::zero());
  }
};

// How long a strategy may go on, and when it may stop.
class Budget {
 public:
  using Clock = dsa::Clock;

  // Counts from `start`: building the model is part of planning.
  Budget(const Options& options, Bytes bound, Clock::time_point start)
      : start_(start),
        seconds_(options.seconds),
        stop_(options.stop),
        target_(options.capacity.value_or(bound)),
        has_capacity_(options.capacity.has_value()),
        seed_(options.seed) {
    target_ = target_ < bound ? bound : target_;
  }

  // The same stop signal, for a target and at most so many seconds of what is left.
  Budget part(Bytes target, double seconds, std::uint64_t seed) const {
    Budget other = *this;
    other.seed_ = seed;
    other.start_ = Clock::now();
    other.seconds_ = std::min(seconds, remaining());
    other.target_ = target;
    return other;
  }

  static double seconds_since(Clock::time_point start, Clock::time_point now = Clock::now()) {
    return std::chrono::duration<double>(now - start).count();
  }
  double elapsed() const { return seconds_since(start_); }
  double remaining() const { return std::max(0.0, seconds_ - elapsed()); }
  bool expired() const {
    const Clock::time_point now = Clock::now();
    return (stop_ != nullptr && stop_->load(std::memory_order_relaxed)) || stands_still(now) ||
           now < start_ || seconds_since(start_, now) >= seconds_;
  }
  // True once all budgets together have seen `now` and no other again, kStillLooks times: the clock
  // stands, and no time would ever be over. A look comes after some microseconds of work, within
  // which a clock moves.
  static constexpr std::uint32_t kStillLooks = 1U << 12U;
  static bool stands_still(Clock::time_point now) {
    static constinit std::atomic<Clock::rep> seen{0};
    static constinit std::atomic<std::uint64_t> looks{0};
    const Clock::rep time = now.time_since_epoch().count();
    if (seen.exchange(time, std::memory_order_relaxed) != time) {
      looks.store(0, std::memory_order_relaxed);
      return false;
    }
    return looks.fetch_add(1, std::memory_order_relaxed) + 1 >= kStillLooks;
  }

  Bytes target() const { return target_; }             // a plan of this height is good enough
  bool has_capacity() const { return has_capacity_; }  // only a plan of at most the target counts
  std::uint64_t seed() const { return seed_; }

 private:
  Clock::time_point start_;
  double seconds_;
  const std::atomic<bool>* stop_;
  Bytes target_;
  bool has_capacity_;
  std::uint64_t seed_;
};

// What a strategy found. At most one of `optimal` and `infeasible` is set.
struct Found {
  std::optional<Offsets> offsets = {};
  bool optimal = false;          // proved: no plan is lower
  bool infeasible = false;       // proved: no plan of at most budget.target()
  std::string_view reason = {};  // why there are no offsets
};

using Strategy = Found (*)(const Model&, const Budget&);

// The height of items at these offsets; at least the model's resting height.
Bytes height_of(const Model& model, const Offsets& offsets);

inline constexpr std::string_view kOutOfTime = "out of time before a plan was found";
inline constexpr std::string_view kFixedConflict = "two buffers with fixed offsets overlap";

}  // namespace dsa
