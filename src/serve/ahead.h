// What comes in huge pages before the program has written it, as a kernel reads ahead in a file: a
// window that grows by what turns out to be written, and falls back where something does not. Hot.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>

#include "src/base/tuning.h"
#include "src/base/units.h"
#include "src/serve/page_map.h"
#include "src/serve/space.h"

namespace memo {

// How much may be ahead in each space of a process. Any thread.
class AheadWindow {
 public:
  // Bytes, where `alive` are in blocks.
  [[nodiscard]] std::uint64_t size(std::uint64_t alive) const {
    const std::uint64_t most = std::min(alive / tuning::kSmallPart, tuning::kMostAhead);
    return std::min(bytes_.load(std::memory_order_relaxed), std::max(most, tuning::kMaxUnwritten));
  }
  // So much was found to be written, or a part that was freed was found not to be.
  void widen(std::uint64_t bytes) { set(bytes_.load(std::memory_order_relaxed) + bytes); }
  void halve() { set(bytes_.load(std::memory_order_relaxed) / 2); }

 private:
  void set(std::uint64_t bytes) {
    bytes_.store(std::clamp(bytes, tuning::kMaxUnwritten, tuning::kMostAhead),
                 std::memory_order_relaxed);
  }
  std::atomic<std::uint64_t> bytes_{tuning::kMaxUnwritten};
};

// What is ahead in one space. For its owner.
class Ahead {
 public:
  // So much of [from, end), of which hardly anything has memory, as may come in huge pages: whole
  // ones, or up to `end`. It is ahead from now on, where `alive` bytes are in blocks. What was
  // taken before is looked at, and is ahead until it is written, or has no memory any more.
  PageMap::Run take(const Space& space, AheadWindow& window, std::uint64_t alive, Granules from,
                    Granules end);
  // Bytes that are, when all of it was looked at.
  std::uint64_t look(const Space& space, AheadWindow& window);
  // Nothing of it has memory any more.
  void forget() { runs_ = {}; }

 private:
  static constexpr std::size_t kRuns = 8;
  std::array<PageMap::Run, kRuns> runs_;
};

}  // namespace memo
