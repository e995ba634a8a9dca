// Problems that the planner's tests generate, all from a seed. Used by the unit and property tests.
#pragma once

#include <cstdint>
#include <random>

#include "dsa/problem.h"

namespace dsa::testing {

// Random problems of a test: a third of them under a sanitizer, whose every step takes several
// times as long. What is asserted of each is the same.
constexpr std::uint64_t rounds(std::uint64_t full) {
#ifdef MEMO_ASAN
  return full / 3;
#else
  return full;
#endif
}

struct Shape {
  std::size_t buffers = 20;
  Time horizon = 20;       // lifetimes lie in [0, horizon)
  Bytes largest = 16;      // sizes lie in [0, largest]
  bool gaps = false;       // a third of the buffers gets up to two gaps
  bool alignment = false;  // alignments of 1, 2, 3, 4 or 8
  bool fixed = false;      // a few buffers are fixed where a first-fit puts them
};

Problem random_problem(const Shape& shape, std::uint64_t seed);

}  // namespace dsa::testing
