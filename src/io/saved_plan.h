// A plan on its way to a file and back. Cold.
#pragma once

#include <cstdint>

#include "src/follow/plan.h"

namespace memo {

struct SavedPlan {
  const Schedule* schedule = nullptr;
  std::uint32_t iteration = 0;  // steps of one iteration
  bool lowest = false;          // as Schedule's: a search has ended since the schedule was made
};

struct LoadedPlan {
  Plan plan;
  std::uint32_t iteration = 0;  // steps of one iteration
};

}  // namespace memo
