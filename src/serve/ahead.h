// What comes in huge pages before the program has written it, as a kernel reads ahead in a file: a
// window that grows by what turns out to be written, and falls back where something does not. Hot.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>

#include "src/base/backoff.h"
#include "src/base/os.h"
#include "src/base/tuning.h"
#include "src/base/units.h"
#include "src/serve/page_map.h"
#include "src/serve/space.h"

namespace memo {

// How much may be ahead in a process. Any thread; about, where several are at it.
class AheadWindow {
 public:
  // Bytes that may be taken now, where `alive` are in blocks.
  [[nodiscard]] std::uint64_t room(std::uint64_t alive) const {
    const std::uint64_t most = std::min(alive / tuning::kSmallPart, tuning::kMostAhead);
    const std::uint64_t size =
        std::min(bytes_.load(std::memory_order_relaxed), std::max(most, tuning::kMaxUnwritten));
    return sub_sat(size, ahead_.load(std::memory_order_relaxed));
  }
  void take(std::uint64_t bytes) { ahead_.fetch_add(bytes, std::memory_order_relaxed); }
  // So much is ahead no more: it is written, or has no memory.
  void settle(std::uint64_t bytes) { ahead_.fetch_sub(bytes, std::memory_order_relaxed); }
  // So much was found to be written, or a part that was freed was found not to be.
  void widen(std::uint64_t bytes) { set(bytes_.load(std::memory_order_relaxed) + bytes); }
  void halve() { set(bytes_.load(std::memory_order_relaxed) / 2); }
  // In a forked child: what is ahead was taken by its parent, and nothing is known of the child.
  void after_fork() {
    bytes_.store(tuning::kMaxUnwritten, std::memory_order_relaxed);
    ahead_.store(0, std::memory_order_relaxed);
    forks_.fetch_add(1, std::memory_order_relaxed);
  }
  [[nodiscard]] std::uint32_t forks() const { return forks_.load(std::memory_order_relaxed); }

 private:
  void set(std::uint64_t bytes) {
    bytes_.store(std::clamp(bytes, tuning::kMaxUnwritten, tuning::kMostAhead),
                 std::memory_order_relaxed);
  }

  std::atomic<std::uint64_t> bytes_{tuning::kMaxUnwritten};
  std::atomic<std::uint64_t> ahead_{0};
  std::atomic<std::uint32_t> forks_{0};
};

// What is ahead in one space. For its owner.
class Ahead {
 public:
  // So much of [from, end), of which hardly anything has memory, as may come in huge pages: whole
  // ones, where `end` is their border. All of it is ahead from now on, also what no block covers
  // yet, where `alive` bytes are in blocks, until it is written or has no memory any more. What was
  // taken before is looked at, as look() says, the more seldom the longer it is not written.
  PageMap::Run take(const Space& space, AheadWindow& window, std::uint64_t alive, Granules from,
                    Granules end, Granules top = Space::kNone);
  // Bytes that are ahead, when all of it was looked at. From granule `top` on nobody can have
  // written: that stays ahead, and says nothing of what the program writes.
  std::uint64_t look(const Space& space, AheadWindow& window, Granules top = Space::kNone);
  // Nothing of it has memory any more.
  void forget(AheadWindow& window);

 private:
  static constexpr std::size_t kRuns = 8;
  // Of a run [first, end) is left.
  void keep(PageMap::Run& run, Granules first, Granules end, AheadWindow& window) const;
  std::array<PageMap::Run, kRuns> runs_;
  Backoff looks_;
  std::uint32_t forks_ = 0;  // of the process, when the runs were taken
};

}  // namespace memo
