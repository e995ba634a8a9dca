// What a stream without a plan asks of the pool, in windows of calls: whether that has been
// learned, whether something new has begun, and when call stacks are worth unwinding. Hot; one
// lane's, and it touches no memory.
#pragma once

#include <cstdint>

#include "src/base/tuning.h"

namespace memo {

class Demand {
 public:
  enum class Look : std::uint8_t { kNothing, kNewLoop, kLearned };
  // At each call while a period is looked for. `peak`: the most bytes of the pool that were in use
  // at once. kNewLoop: it has grown by much, and what came before is no part of the loop. kLearned:
  // it has stayed for long.
  Look look(std::uint64_t peak);
  // By the latest look the stream counts as an unordered one from now on.
  [[nodiscard]] bool unordered() const { return searched_ == 8 * tuning::kPoolWindow; }
  // While pooling: the pool has given `bytes`, which it had `at_hand`.
  void judge(std::uint64_t bytes, bool at_hand);
  // Sizes do not repeat and the pool lacks much: a period of call sites may be had instead.
  [[nodiscard]] bool wants_sites() const {
    return short_windows_ >= tuning::kShortWindows && searched_ < 64 * tuning::kPoolWindow;
  }
  // A plan is served from now on.
  void planned() { searched_ = short_windows_ = 0; }

 private:
  std::uint32_t searched_ = 0;  // calls since a period was last known, or the pool grew by much
  std::uint64_t searched_peak_ = 0;  // the pool's peak then, bytes
  std::uint32_t same_peak_ = 0;      // calls since the pool's peak last grew
  std::uint64_t last_peak_ = 0;      // bytes
  std::uint32_t window_calls_ = 0;   // in this window
  std::uint64_t window_bytes_ = 0;   // and what they asked for
  std::uint64_t window_lacked_ = 0;  // of that, what the pool had no memory at hand for
  std::uint32_t short_windows_ = 0;  // windows in which it lacked much, since a period was known
};

}  // namespace memo
