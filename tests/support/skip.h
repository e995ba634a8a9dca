// How a unit test says that it cannot run here. Catch2 2 has no word for it: the line is what
// scripts/gates/check.py counts, and what it prints for the reader. What a test needs is probed by
// something else than the feature under test, which would pass by being broken.
#pragma once

#include <catch2/catch.hpp>
#include <cstdio>

namespace memo::testing {

// Prints why the running test is skipped; the test then returns. `reason`: what is missing, in
// words.
inline void skip(const char* reason) {
  std::printf("\nskipped: %s: %s\n", Catch::getResultCapture().getCurrentTestName().c_str(),
              reason);
  std::fflush(stdout);
}

}  // namespace memo::testing
