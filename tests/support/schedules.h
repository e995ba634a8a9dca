// Schedules made by hand or at random, with their index. For tests only.
#pragma once

#include <cstdint>
#include <vector>

#include "src/follow/plan.h"
#include "tests/support/process.h"
#include "tests/support/units.h"

namespace memo::testing {

class OwnSchedule {
 public:
  explicit OwnSchedule(std::vector<Step> steps) : steps_(std::move(steps)) {
    std::uint64_t height = 0;
    for (const Step& step : steps_) {
      if (step.offset != kUnplanned) {
        height = std::max(height, step.offset + bytes_of(granules_of(step.size)));
      }
    }
    schedule = {steps_.data(), static_cast<std::uint32_t>(steps_.size()), height, height, 0};
    memory_.resize(ContextIndex::words(schedule.count));
    index.build(schedule, memory_.data());
  }

  Schedule schedule;
  ContextIndex index;

 private:
  std::vector<Step> steps_;
  std::vector<std::uint32_t> memory_;
};

// `count` sizes, all different.
inline std::vector<std::uint64_t> sizes(std::uint64_t count, std::uint64_t from = 70'000) {
  std::vector<std::uint64_t> result;
  for (std::uint64_t i = 0; i < count; ++i) {
    result.push_back(from + 1000 * ((i * 37) % count));
  }
  return result;
}

// Steps that lie one above the other.
inline std::vector<Step> stacked(const std::vector<std::uint64_t>& sizes) {
  std::vector<Step> steps;
  std::uint64_t offset = 0;
  for (const std::uint64_t size : sizes) {
    steps.push_back({.size = size, .offset = offset});
    offset += bytes_of(granules_of(size));
  }
  return steps;
}

// A plan of these steps, whatever they are.
inline Plan plan_of(const std::vector<Step>& steps, std::uint64_t height,
                    const SymbolicPlan* symbolic = nullptr) {
  return Plan::copy_of({.steps = steps.data(),
                        .count = static_cast<std::uint32_t>(steps.size()),
                        .height = height,
                        .lower_bound = height,
                        .lowest = symbolic != nullptr,
                        .symbolic = symbolic});
}

// A plan with no regard for lifetimes: sizes as given, places anywhere below `height`, a few left
// out.
[[gnu::noinline]] inline Plan hostile(Random& random, const std::vector<std::uint64_t>& sizes,
                                      std::uint64_t height) {
  std::vector<Step> steps;
  for (const std::uint64_t size : sizes) {
    steps.push_back({.size = size, .alignment_log2 = 12});
    if (below(random, 16) != 0) {
      const Granules room = granules_in(height) - granules_of(size);
      steps.back().offset = bytes_of(Granules{below(random, room.count() + 1)});
    }
  }
  return plan_of(steps, height);
}

}  // namespace memo::testing
