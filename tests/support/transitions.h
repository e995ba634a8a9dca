// What each event does in each phase of a lane, written down a second time. For tests only.
#pragma once

#include <string_view>

#include "src/engine/phase.h"

namespace memo::testing {

inline constexpr Phase kAllPhases[] = {Phase::kIdle, Phase::kLearning, Phase::kReady,
                                       Phase::kServing, Phase::kPooling};

inline bool needs_plan(Phase phase) {
  return phase == Phase::kReady || phase == Phase::kServing;
}

// By event, in the order of Event: the next phase from idle, learning, ready, serving and pooling,
// by its first letter; `.` where nothing follows, or the pair cannot be.
struct Expected {
  std::string_view name;
  std::string_view learns;
  std::string_view cannot;
};
inline constexpr Expected kExpected[kEvents] = {
    {"taken", "L....", "P...."},     {"memory", "....L", "....L"},
    {"new loop", "....L", "....L"},  {"demand known", ".P...", ".P..."},
    {"plan made", ".R..R", ".R..R"}, {"mismatch", "..L..", "..L.."},
    {"opened", ".SS.S", ".SS.S"},    {"refused", ".PPPP", ".PPPP"},
    {"unusable", ".L.PP", ".L.PP"},  {"other plan", "...S.", "...S."},
    {"lost", "...L.", "...P."},      {"woken", "...S.", "...S."},
    {"forked", ".LLLP", ".LLPP"},    {"left", ".IIII", ".IIII"},
};

}  // namespace memo::testing
