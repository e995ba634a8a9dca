// Brings memory that has all its pages, but small ones, into huge pages: weights where not enough was alive to begin with
// huge ones, and the small blocks of the next allocator. That costs no memory, and fewer misses of the TLB. What was given
// back in part stays in small pages. For a background thread: each huge page takes some 0.3 ms, in which who touches it waits,
// so it rests between them.
#pragma once

#include <cstdint>

#include "src/base/bits.h"
#include "src/base/os.h"
#include "src/base/tuning.h"

namespace memo {

// What is asked of the system; tests pretend one.
struct GatherCalls {
  bool (*collapse)(void* start) = os::collapse;
  Nanos (*now)() = os::nanoseconds;
  bool (*rest)(Nanos time) = os::rest;
};

class Gathering {
 public:
  explicit Gathering(const GatherCalls& calls = {}) : calls_(calls) {}

  // Gathers what lies in whole huge pages of [start, end), any addresses, where `is_own(start of one)` says that all of it
  // has memory. `may_go_on()` is asked before each; false: it was asked to stop, or the system does not let it
  // rest. Other threads may take memory from the range meanwhile, and unmap it.
  template <typename IsOwn, typename MayGoOn>
  bool gather(std::uint64_t start, std::uint64_t end, IsOwn&& is_own, MayGoOn&& may_go_on) const {
    const std::uint64_t last = round_down(end, os::kHugePage);
    for (std::uint64_t at = round_up(start, os::kHugePage); at < last; at += os::kHugePage) {
      if (!may_go_on()) {
        return false;
      }
      if (is_own(reinterpret_cast<const void*>(at)) && !collapse(reinterpret_cast<void*>(at))) {
        return false;
      }
    }
    return true;
  }

 private:
  // False where the system does not let us rest.
  [[nodiscard]] bool collapse(void* start) const {
    const Nanos began = calls_.now();
    calls_.collapse(start);
    // What is in a huge page already takes some microseconds.
    return calls_.now() - began < tuning::kGatherWork || calls_.rest(tuning::kGatherRest);
  }

  GatherCalls calls_;
};

}  // namespace memo
