// Whether a program writes the blocks that it asks for, or only a part of them (a sparse table, a
// buffer for the worst case). Hot, but for learning only.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "src/base/os.h"
#include "src/base/tuning.h"

namespace memo {

// A slab that is populated beforehand pays where its blocks are written whole, and wastes memory
// where they are not. Looks at some of the blocks that are freed while a loop is learned. Any
// thread.
class Touched {
 public:
  // A block of `bytes` at `start` that is about to be freed. `shows`: what of it has memory was written, with zeros
  // perhaps, as masks and padding are. Else zeros count as not written.
  void look(const void* start, std::uint64_t bytes, bool shows = false) {
    const std::uint32_t number = seen_.load(std::memory_order_relaxed);
    if (number >= 8 * tuning::kMaxTouchedInFull) {
      return;
    }
    seen_.fetch_add(1, std::memory_order_relaxed);
    if (number >= tuning::kMaxTouchedInFull && number % tuning::kTouchedOf != 0) {
      return;
    }
    const std::uint64_t part = std::min(bytes, tuning::kMaxLooked);
    const std::uint64_t there =
        shows ? os::resident_bytes(start, part) : os::written_bytes(start, part);
    looked_at_.fetch_add(bytes, std::memory_order_relaxed);
    written_.fetch_add(bytes / part * there, std::memory_order_relaxed);
  }
  // At least half of what was seen was written. Until something is seen: as in the loop before, and
  // true in the first.
  [[nodiscard]] bool mostly() const {
    const std::uint64_t looked_at = looked_at_.load(std::memory_order_relaxed);
    return looked_at == 0 ? before_.load(std::memory_order_relaxed)
                          : 2 * written_.load(std::memory_order_relaxed) >= looked_at;
  }
  // Blocks that were freed since then.
  [[nodiscard]] std::uint32_t seen() const { return seen_.load(std::memory_order_relaxed); }
  // The loop is known: another thread has seen that its blocks are written in part.
  void follow_sparse() {
    before_ = false;
    looked_at_ = 0;
    written_ = 0;
  }
  // Another loop is learned.
  void restart() {
    before_ = mostly();
    seen_ = 0;
    looked_at_ = 0;
    written_ = 0;
  }

 private:
  std::atomic<std::uint32_t> seen_{0};       // blocks
  std::atomic<std::uint64_t> looked_at_{0};  // bytes of the blocks
  std::atomic<std::uint64_t> written_{0};    // bytes, projected from the part looked at
  std::atomic<bool> before_{true};           // of the loop before
};

}  // namespace memo
