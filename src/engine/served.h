// What was served, by a plan or from memory at hand, since a lane began to serve. Hot: written by
// the lane's owner, read by anyone.
#pragma once

#include <atomic>
#include <cstdint>

#include "src/base/counters.h"

namespace memo {

struct Served {
  std::uint64_t allocations = 0;
  std::uint64_t bytes = 0;
  std::uint64_t large_bytes = 0;  // asked for meanwhile, served or not
};

class ServedSince {
 public:
  // What the counters say so far does not count.
  void begin(const Counters& counters) {
    const Served now = served(counters);
    allocations_ = now.allocations;
    bytes_ = now.bytes;
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
    return {now.allocations - allocations_, now.bytes - bytes_, now.large_bytes - large_bytes_};
  }

 private:
  static Served served(const Counters& counters) {
    return {counters.planned_allocations.get() + counters.at_hand_allocations.get(),
            counters.planned_bytes.get() + counters.at_hand_bytes.get(),
            counters.large_bytes.get()};
  }
  std::atomic<bool> begun_{false};
  std::atomic<std::uint64_t> allocations_{0};
  std::atomic<std::uint64_t> bytes_{0};
  std::atomic<std::uint64_t> large_bytes_{0};
};

}  // namespace memo
