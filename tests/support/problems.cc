// Generators of planning problems.
#include "tests/support/problems.h"

#include <algorithm>

namespace dsa::testing {
namespace {

using Random = std::mt19937_64;

std::int64_t between(Random& random, std::int64_t low, std::int64_t high) {
  return std::uniform_int_distribution<std::int64_t>(low, high)(random);
}

void cut_gaps(Random& random, Buffer& buffer) {
  Time from = buffer.lower;
  for (int i = 0; i < 2 && from + 1 < buffer.upper; ++i) {
    const Time lower = between(random, from, buffer.upper - 1);
    const Time upper = between(random, lower + 1, buffer.upper);
    if (upper - lower < buffer.upper - buffer.lower) {
      buffer.gaps.push_back({lower, upper});
    }
    from = upper;
  }
}

bool overlap(const Buffer& a, const Buffer& b) {
  return a.lower < b.upper && b.lower < a.upper;
}

// Fixes a few buffers where they do not disturb each other, whatever their gaps.
void fix_some(Random& random, Problem& problem) {
  for (std::size_t i = 0; i < problem.buffers.size(); i += 4) {
    Buffer& buffer = problem.buffers[i];
    const Offset offset = between(random, 0, 8) * buffer.alignment;
    const bool clash =
        std::any_of(problem.buffers.begin(), problem.buffers.end(), [&](const Buffer& other) {
          return other.fixed && overlap(buffer, other) && *other.fixed < offset + buffer.size &&
                 offset < *other.fixed + other.size;
        });
    if (!clash) {
      buffer.fixed = offset;
    }
  }
}

}  // namespace

Problem random_problem(const Shape& shape, std::uint64_t seed) {
  Random random(seed);
  Problem problem;
  for (std::size_t i = 0; i < shape.buffers; ++i) {
    Buffer buffer;
    buffer.lower = between(random, 0, shape.horizon - 1);
    buffer.upper = between(random, buffer.lower + 1, shape.horizon);
    buffer.size = between(random, 0, shape.largest);
    if (shape.alignment) {
      constexpr Bytes kAlignments[] = {1, 2, 3, 4, 8};
      buffer.alignment = kAlignments[between(random, 0, 4)];
    }
    if (shape.gaps && between(random, 0, 2) == 0) {
      cut_gaps(random, buffer);
    }
    problem.buffers.push_back(std::move(buffer));
  }
  if (shape.fixed) {
    fix_some(random, problem);
  }
  return problem;
}

}  // namespace dsa::testing
