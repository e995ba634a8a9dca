// Ends a fuzzed process where a promise does not hold; the fuzzer keeps the input and the stack.
//
// run.sh first runs the inputs that it has made by themselves, with MEMO_FUZZ_SEEDS=1. Those are
// right: a target that refuses one reaches nothing of what lies behind its reader.
#pragma once

#include <cstdlib>

inline void require(bool condition) {
  if (!condition) {
    std::abort();
  }
}

// For what holds of the seeds alone.
inline void require_of_seed(bool condition) {
  static const bool kSeeds = std::getenv("MEMO_FUZZ_SEEDS") != nullptr;
  require(condition || !kSeeds);
}
