// Finds the place in a schedule from the last few sizes asked for. Hot to read, made once per
// schedule.
#pragma once

#include <cstdint>

#include "src/base/tuning.h"
#include "src/follow/steps.h"

namespace memo {

using tuning::kContext;
inline constexpr StepIndex kNoStep = StepIndex::max();

// The sizes of the last calls of a stream.
struct Recent {
  std::uint64_t sizes[kContext] = {};  // bytes, oldest first

  void add(std::uint64_t size) {
    for (std::uint32_t i = 0; i + 1 < kContext; ++i) {
      sizes[i] = sizes[i + 1];
    }
    sizes[kContext - 1] = size;
  }
  [[nodiscard]] std::uint64_t latest() const { return sizes[kContext - 1]; }
};

class ContextIndex {
 public:
  // Number of 32-bit words that build() needs for a schedule of `count` steps.
  static std::uint64_t words(std::uint32_t count);
  // Enters every place of the (cyclic) schedule; `memory` is zeroed, of words(count), and outlives
  // the index.
  void build(const Schedule& schedule, std::uint32_t* memory);

  // The step whose size and whose two predecessors' sizes are `recent` (oldest first), and that
  // comes first at or after `from` in cyclic order; kNoStep if there is none among the first few
  // candidates.
  [[nodiscard]] StepIndex find(const Schedule& schedule, const Recent& recent,
                               StepIndex from) const;

 private:
  std::uint32_t* heads_ = nullptr;  // step + 1 of the first of a chain
  std::uint32_t* next_ = nullptr;   // step + 1 of the next of equal hash
  std::uint32_t mask_ = 0;
};

}  // namespace memo
