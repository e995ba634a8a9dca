// What Repeat::start() and Tracker::begin_histories() take, released at the end.
#pragma once

#include <cstdint>

#include "src/base/growing_array.h"
#include "src/base/tuning.h"

namespace memo::testing {

struct History : GrowingArray<std::uint32_t> {
  explicit History(std::uint64_t capacity = tuning::kMaxLog) {
    reserve(capacity);
    grow(1);
  }
  ~History() { release(); }
  History(const History&) = delete;
  History& operator=(const History&) = delete;
};

struct Histories {
  History sizes;
  History sites;
};

}  // namespace memo::testing
