// The judge of a plan. It shares no code with any planner, and nothing is served that it has not
// accepted.
#pragma once

#include <cstddef>
#include <string>

#include "dsa/problem.h"

namespace dsa {

// Why a plan is refused; i and j are the indices of the buffers concerned (equal for a single one).
struct Verdict {
  std::string reason;  // empty: the plan is good
  std::size_t i = 0;
  std::size_t j = 0;
  explicit operator bool() const { return reason.empty(); }
};

// Checks that a problem is well formed (see Buffer) and that its sizes add up without overflow.
Verdict validate(const Problem& problem);

// Checks that each offset is >= 0, aligned and, where fixed, kept; that no two buffers alive at the
// same time share an address; that the height is right. O(n log n + overlapping pairs).
Verdict validate(const Problem& problem, const Plan& plan);

}  // namespace dsa
