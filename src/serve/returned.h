// Which blocks of the pool go back to the system when they are freed, whatever the pool's peak. Hot;
// any thread. A wrong answer costs page faults, or keeps a block up to the peak.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "src/base/tuning.h"

namespace memo {

class Returned {
 public:
  // A very large block is freed while nothing is known of its stream: true if it is one of the
  // process' first. Later ones are no start any more: their memory would only be taken anew.
  bool early() {
    return early_.load(std::memory_order_relaxed) < tuning::kMaxReturnedAtOnce &&
           early_.fetch_add(1, std::memory_order_relaxed) < tuning::kMaxReturnedAtOnce;
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
  std::atomic<std::uint32_t> early_{0};  // blocks
  std::atomic<std::uint64_t> owed_{0};   // bytes
};

}  // namespace memo
