// When a lane that was refused a slab asks for one again, and why it has none. Hot; its owner's, but for shares().
#pragma once

#include <atomic>

#include "src/base/backoff.h"
#include "src/base/tuning.h"
#include "src/engine/tracker_state.h"

namespace memo {

class SlabWait {
 public:
  // The answer of open(), or none while the lane is to wait after it was refused: for longer each time. `at_once`: it asks
  // whether it waits or not.
  template <typename Open>
  Answer ask(bool at_once, Open&& open) {
    if (at_once || !refusals_.waits()) {
      const Answer answer = open();
      shares_.store(answer.busy, std::memory_order_relaxed);
      if (answer.yes) {
        refusals_.restart();
        return answer;
      }
      refusals_.refused(tuning::kMaxSlabWait);
    }
    return {.busy = shares()};
  }
  // Another thread's lane.
  void restart() {
    refusals_.restart();
    shares_.store(false, std::memory_order_relaxed);
  }
  // It was refused since as many others as can run are at work. Any thread.
  [[nodiscard]] bool shares() const { return shares_.load(std::memory_order_relaxed); }

 private:
  Backoff refusals_;
  std::atomic<bool> shares_{false};
};

}  // namespace memo
