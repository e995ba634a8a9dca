// Brings memory that has all its pages, but small ones, into huge pages: weights where not enough was alive to begin with
// huge ones, and the small blocks of the next allocator. That takes no memory, and costs fewer misses of the TLB from then
// on. What was given back in part stays in small pages. For a background thread: while one huge page is made, 0.3 to 8 ms,
// whoever touches it, maps memory or has a page fault waits, and a processor is busy with it, so there is a rest after each.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "src/base/bits.h"
#include "src/base/os.h"
#include "src/base/tuning.h"

namespace memo {

// What is asked of the system; tests pretend one.
struct GatherCalls {
  os::Collapse (*collapse)(void* start) = os::collapse;
  Nanos (*now)() = os::nanoseconds;
};

// Whether the next huge page may be made, `waited` after one that took so long, and so many iterations of the program: it is
// to lengthen an iteration by little, or one in a hundred.
inline bool has_rested(Nanos took, Nanos waited, std::uint64_t iterations) {
  const Nanos least = took * tuning::kGatherShare;
  return waited >= least && (waited >= least * iterations || iterations >= tuning::kGatherEvery);
}

class Gathering {
 public:
  explicit Gathering(const GatherCalls& calls = {}) : calls_(calls) {}

  // Gathers what lies in whole huge pages of [start, end), any addresses, where `fits(start of one)` says that all of it
  // has memory. `rest(took)` rests as a huge page asks for that took so long, 0 if none was made, and tells whether to go on.
  // False: it said no, or no huge page is to be had. Other threads may give memory of the range back meanwhile, and unmap it.
  template <typename Fits, typename Rest>
  bool gather(std::uint64_t start, std::uint64_t end, Fits&& fits, Rest&& rest) {
    const std::uint64_t last = round_down(end, os::kHugePage);
    for (std::uint64_t at = round_up(start, os::kHugePage); at < last; at += os::kHugePage) {
      ++looks_;
      if (fits(reinterpret_cast<const void*>(at))) {
        // What is in a huge page already takes some microseconds.
        const Nanos began = calls_.now();
        if (calls_.collapse(reinterpret_cast<void*>(at)) == os::Collapse::kNoMemory) {
          return false;
        }
        const Nanos took = calls_.now() - began;
        if (took >= tuning::kGatherWork) {
          looks_ = tuning::kGatherLooks;
          took_ = took;
        }
      }
      if (looks_ >= tuning::kGatherLooks) {
        looks_ = 0;
        if (!rest(std::exchange(took_, Nanos{0}))) {
          return false;
        }
      }
    }
    return true;
  }

 private:
  GatherCalls calls_;
  std::uint32_t looks_ = 0;  // since the last rest
  Nanos took_;               // that was made since
};

}  // namespace memo
