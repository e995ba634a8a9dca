// Asks again for what the system has refused, after 1, 2, 4, ... further occasions. Hot. Where
// several threads have one, an occasion that two of them count at once may count as one.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "src/base/check.h"

namespace memo {

class Backoff {
 public:
  // At each occasion: true if it is to be let pass.
  bool waits() {
    const std::uint32_t left = left_.load(std::memory_order_relaxed);
    if (left == 0) {
      return false;
    }
    left_.store(left - 1, std::memory_order_relaxed);
    return true;
  }
  // What was asked for was refused: at most `longest` occasions pass before it is tried again.
  void refused(std::uint32_t longest) {
    MEMO_DCHECK(longest != 0);
    const std::uint32_t next = next_.load(std::memory_order_relaxed);
    left_.store(next, std::memory_order_relaxed);
    next_.store(std::min(2 * next, longest), std::memory_order_relaxed);
  }
  void restart() {
    left_.store(0, std::memory_order_relaxed);
    next_.store(1, std::memory_order_relaxed);
  }

 private:
  std::atomic<std::uint32_t> left_{0};
  std::atomic<std::uint32_t> next_{1};
};

}  // namespace memo
