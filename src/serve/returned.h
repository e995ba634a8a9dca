// Which blocks of the pool go back to the system when they are freed, whatever the pool's peak. Hot;
// any thread. A wrong answer costs page faults, or keeps a block up to the peak.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>

#include "src/base/bits.h"
#include "src/base/tuning.h"

namespace memo {

class Returned {
 public:
  // A very large block (bytes, whole granules) is freed while nothing is known of its stream: true
  // if it is the first of about its size for some time. What comes twice may be a loop, or an array that
  // grows by being copied, and taking its memory anew each time costs more page faults than glibc's
  // malloc, which raises its threshold in the same way.
  bool first(std::uint64_t bytes) {
    const std::uint64_t size = round_down(bytes, std::bit_floor(bytes) / tuning::kReturnedParts);
    std::atomic<std::uint64_t>& slot =
        sizes_[((size * 0x9E3779B97F4A7C15ULL) >> 32) % tuning::kReturnedSizes];
    return slot.exchange(size, std::memory_order_relaxed) != size;
  }

  // So many bytes of the blocks that are alive now are there twice: a plan on trial has memory for
  // those that replace them.
  void owe(std::uint64_t bytes) { owed_.store(bytes, std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t owed() const { return owed_.load(std::memory_order_relaxed); }
  // A block of so many bytes is freed: true, and that much less is owed, if it is one of those.
  bool pays(std::uint64_t bytes) {
    std::uint64_t owed = owed_.load(std::memory_order_relaxed);
    while (owed != 0 && !owed_.compare_exchange_weak(owed, owed - std::min(owed, bytes),
                                                     std::memory_order_relaxed)) {
    }
    return owed != 0;
  }

 private:
  std::atomic<std::uint64_t> sizes_[tuning::kReturnedSizes] = {};
  std::atomic<std::uint64_t> owed_{0};  // bytes
};

}  // namespace memo
