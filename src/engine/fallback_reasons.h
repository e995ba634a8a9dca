// The counter and the word of each reason for which a call was not placed, though a plan is served.
// Tracker::place() decides it, and Tracker::answer() counts it, or Lane::serve_expected() on the
// short way. Calls that the pool could not serve: Tracker::count_given(); that no lane took:
// Lane::wait(), Lane::end(), Engine::allocate_with_care(); growth: Tracker::grown(). Hot.
#pragma once

#include <string_view>

#include "src/base/counters.h"
#include "src/follow/placer.h"
#include "src/serve/slab.h"

namespace memo {

constexpr Miss miss_of(SlabPlace::Answer answer) {
  switch (answer) {
    case SlabPlace::Answer::kMisaligned:
      return Miss::kAlignment;
    case SlabPlace::Answer::kOccupied:
      return Miss::kOccupied;
    case SlabPlace::Answer::kGranted:
      break;
  }
  return Miss::kNone;
}

struct MissReason {
  Counter Counters::* counter;
  std::string_view name;
};
// What each miss but kNone is counted as and called.
inline const MissReason& reason_of(Miss miss) {
  static constexpr MissReason kReasons[] = {{&Counters::fallback_size, "size"},
                                            {&Counters::fallback_order, "order"},
                                            {&Counters::fallback_alignment, "alignment"},
                                            {&Counters::fallback_occupied, "occupied"},
                                            {&Counters::fallback_unplanned, "unplanned"}};
  static_assert(sizeof kReasons / sizeof *kReasons == static_cast<std::size_t>(Miss::kLeftOut));
  return kReasons[static_cast<std::size_t>(miss) - 1];
}

}  // namespace memo
