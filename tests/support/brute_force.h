// The least height of a small problem by trying every placement order. For tests: shares nothing
// with the planners.
#pragma once

#include <optional>

#include "dsa/problem.h"

namespace dsa::testing {

// None if fixed offsets contradict each other. Takes seconds from 9 buffers on.
std::optional<Bytes> least_height(const Problem& problem);

}  // namespace dsa::testing
