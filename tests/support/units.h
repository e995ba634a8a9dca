// Units by their suffix. For tests only.
#pragma once

#include <cstdint>

#include "src/base/units.h"

namespace memo {

// 12_g: twelve granules, or the thirteenth.
constexpr Granules operator""_g(unsigned long long count) {
  return Granules{count};
}
// 5_step: the sixth step of a plan.
constexpr StepIndex operator""_step(unsigned long long index) {
  return StepIndex{static_cast<std::uint32_t>(index)};
}

}  // namespace memo
