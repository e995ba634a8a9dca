// Feeds a stream to the finder as the engine does: call by call, looking when Repeat says so.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "src/follow/repeat.h"
#include "src/learn/find_period.h"
#include "tests/learn/stream_builder.h"
#include "tests/support/histories.h"

namespace memo::test {

struct Found {
  std::size_t after = 0;  // allocations made when it was found
  Period period;
};

// The first period found in the stream, or none.
inline std::optional<Found> feed(const std::vector<Allocation>& stream) {
  testing::History history;
  Repeat repeat;
  repeat.start(&history, tuning::kMaxLog);
  for (std::size_t i = 0; i < stream.size(); ++i) {
    if (repeat.add(stream[i].size, stream[i].alignment_log2)) {
      if (const auto period = find_period(StreamBuilder::cut(stream, i + 1))) {
        return Found{i + 1, *period};
      }
    }
  }
  return std::nullopt;
}

}  // namespace memo::test
