// Ends a fuzzed process where a promise does not hold; the fuzzer keeps the input and the stack.
#pragma once

#include <cstdlib>

inline void require(bool condition) {
  if (!condition) {
    std::abort();
  }
}
