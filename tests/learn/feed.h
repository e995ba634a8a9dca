// Feeds a stream to the finder as the engine does: call by call, looking when Repeat says so.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "src/follow/repeat.h"
#include "src/learn/find_period.h"
#include "tests/learn/stream_builder.h"

namespace memo::test {

struct Found {
  std::size_t after = 0;  // allocations made when it was found
  Period period;
};

// The first period found in the stream, or none.
inline std::optional<Found> feed(const std::vector<Allocation>& stream) {
  constexpr std::uint32_t kHistory = 1 << 16;
  const auto history = std::make_unique<std::uint32_t[]>(kHistory);
  Repeat repeat;
  repeat.start(history.get(), kHistory);
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
