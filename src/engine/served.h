// The bytes that were planned or reused since a lane began to serve. Hot: written by the lane's
// owner, read by anyone.
#pragma once

#include <atomic>
#include <cstdint>

#include "src/base/counters.h"

namespace memo {

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

}  // namespace memo
