// Counters of one lane. Hot: written by the lane's owner alone, read by anyone, so relaxed loads
// and stores are enough and no cache line is shared between lanes. Calls that no lane takes are
// counted in a set that all threads share, by add_from_any.
#pragma once

#include <atomic>
#include <cstdint>

namespace memo {

class Counter {
 public:
  void add(std::uint64_t amount = 1) {
    value_.store(value_.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
  }
  // As add, where other threads or a signal's handler may add at the same time.
  void add_from_any(std::uint64_t amount = 1) {
    value_.fetch_add(amount, std::memory_order_relaxed);
  }
  [[nodiscard]] std::uint64_t get() const { return value_.load(std::memory_order_relaxed); }
  void reset() { value_.store(0, std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

struct Counters {
#define COUNTER(name, unit, help) Counter name;
#include "src/base/counters.def"
#undef COUNTER

  // A large allocation of `bytes` that is neither planned nor reused, for `reason`.
  // Any thread.
  [[gnu::cold, gnu::noinline]] void pass_on(std::uint64_t bytes, Counter Counters::* reason) {
    large_allocations.add_from_any();
    large_bytes.add_from_any(bytes);
    other_allocations.add_from_any();
    other_bytes.add_from_any(bytes);
    (this->*reason).add_from_any();
  }

  // Adds the values of `other` to these.
  void add(const Counters& other) {
#define COUNTER(name, unit, help) name.add(other.name.get());
#include "src/base/counters.def"
#undef COUNTER
  }
  void reset() {
#define COUNTER(name, unit, help) name.reset();
#include "src/base/counters.def"
#undef COUNTER
  }
};

}  // namespace memo
