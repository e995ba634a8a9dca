// Whether a stream still is the plan's that it is served from: counts what matched and what did
// not, in windows. Hot; one lane's.
#pragma once

#include <cstdint>

#include "src/base/tuning.h"

namespace memo {

class Health {
 public:
  // A call for `bytes`, of a plan of `count` steps, has `matched` one of them or none.
  void note(bool matched, std::uint64_t bytes, std::uint32_t count) {
    ++calls_;
    bytes_ += bytes;
    if (matched) [[likely]] {
      misses_in_row_ = 0;
    } else {
      ++misses_;
      missed_bytes_ += bytes;
      ++misses_in_row_;
    }
    if (calls_ >= (count < tuning::kJudgedCalls ? tuning::kJudgedCalls : count) ||
        misses_in_row_ >= max_in_row()) {
      judge();
    }
  }
  // The call noted last has matched, and an older block lies in its place.
  void note_in_the_way(std::uint64_t bytes) { kept_out_bytes_ += bytes; }
  [[nodiscard]] std::uint32_t misses_in_row() const { return misses_in_row_; }
  // True when most of the last iteration's calls (at least kJudgedCalls) did not match, or many in
  // a row, or many calls or bytes in each of several iterations, or when most bytes of each of them
  // had no place: the program has changed.
  [[nodiscard]] bool lost() const { return lost_; }
  // Lost for one of the latter reasons: the plan is another program's, which shares a part with
  // this one, or its sizes alone.
  [[nodiscard]] bool unfit() const { return poor_windows_ >= tuning::kMaxPoorWindows; }
  // Unfit, and its sizes are this program's: the blocks live longer than the plan's.
  [[nodiscard]] bool outlived() const { return unfit() && kept_out_; }

 private:
  void judge();
  // Misses in a row that end the plan at once: longer than a detour between two matching calls.
  static std::uint32_t max_in_row() { return tuning::kMaxPoorWindows * tuning::kJudgedCalls; }

  std::uint32_t calls_ = 0;   // of the window at hand
  std::uint32_t misses_ = 0;  // of these
  std::uint64_t bytes_ = 0;   // of its calls
  std::uint64_t missed_bytes_ = 0;
  std::uint64_t kept_out_bytes_ = 0;
  std::uint32_t misses_in_row_ = 0;
  std::uint32_t poor_windows_ = 0;  // in a row
  bool kept_out_ = false;           // the last poor window was so for blocks in the way alone
  bool lost_ = false;
};

}  // namespace memo
