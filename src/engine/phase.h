// The phases of a lane, and what moves it from one to the next: src/engine/tracker.def. Hot.
#pragma once

#include <cstdint>

namespace memo {

enum class Phase : std::uint8_t { kIdle, kLearning, kReady, kServing, kPooling };
inline constexpr std::uint32_t kPhases = 5;
const char* name_of(Phase phase);

enum class Event : std::uint8_t {
  kTaken,
  kMemory,
  kNewLoop,
  kDemandKnown,
  kPlanMade,
  kMismatch,
  kOpened,
  kRefused,
  kUnusable,
  kOtherPlan,
  kLost,
  kWoken,
  kForked,
  kLeft,
};
inline constexpr std::uint32_t kEvents = 14;

// The condition of a row of tracker.def.
enum class When : std::uint8_t { kAlways, kLearns, kCannot };

}  // namespace memo
