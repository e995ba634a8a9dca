// From a stream whose sizes change from iteration to iteration to a symbolic plan. Pure and cold.
// The calls must come from the same sites in the same order; the sizes must follow from the first
// one. src/learn/README.md has the reasons.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "dsa/problem.h"
#include "src/follow/steps.h"
#include "src/learn/period.h"
#include "src/trace/event.h"

namespace memo {

// An iteration with the sizes left open.
struct SymbolicInput {
  Period period;
  std::vector<SymbolicStep> steps;  // of one period
  std::size_t reference = 0;        // index in the stream of the largest iteration's first call
};

// What the latest iterations of the stream have in common; none if there is no period of sites,
// the first sizes are all equal or too few, or too many bytes follow no rule.
std::optional<SymbolicInput> symbolic_input(std::span<const Allocation> stream);

// The rule through all samples (x[k] the first size, sizes[k] the step's), constant, linear or
// quadratic, and confirmed by at least one sample more than it takes to determine it; none if there
// is no such rule. Requires x.size() == sizes.size().
std::optional<SizeRule> exact_rule(std::span<const std::uint64_t> x,
                                   std::span<const std::uint64_t> sizes);
// The least rule that is nowhere below the samples: proportional to the first size, or constant.
SizeRule upper_rule(std::span<const std::uint64_t> x, std::span<const std::uint64_t> sizes);

// Which block lies on which in `plan`, in the order that SymbolicPlan wants; step_of maps buffers
// to steps. Requires a valid plan of a problem without gaps. O(n log n): `looks`, if not null, gets
// how often a buffer that is alive was looked at.
std::vector<Support> supports(const dsa::Problem& problem, const dsa::Plan& plan,
                              std::span<const std::uint32_t> step_of,
                              std::uint64_t* looks = nullptr);

}  // namespace memo
