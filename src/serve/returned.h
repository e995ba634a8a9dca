// Which sizes of very large blocks have been given back when they were freed, so that the next of
// the same size is kept: what comes twice may be a loop, and taking its memory anew each time costs
// more page faults than glibc's malloc, which raises its threshold in the same way. Hot; any
// thread. A wrong answer costs page faults, or keeps a block up to the pool's peak.
#pragma once

#include <atomic>
#include <cstdint>

#include "src/base/tuning.h"

namespace memo {

class Returned {
 public:
  // A block of `bytes` (whole granules) is freed while nothing is known of its stream: true if it
  // is the first of its size for some time, and is to go back to the system.
  bool first(std::uint64_t bytes) {
    std::atomic<std::uint64_t>& slot =
        sizes_[((bytes * 0x9E3779B97F4A7C15ULL) >> 32) % tuning::kReturnedSizes];
    return slot.exchange(bytes, std::memory_order_relaxed) != bytes;
  }

 private:
  std::atomic<std::uint64_t> sizes_[tuning::kReturnedSizes] = {};
};

}  // namespace memo
