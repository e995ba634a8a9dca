// When a lane that was refused a slab asks for one again, and why it has none. Hot; its owner's alone.
#pragma once

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
      shares_ = answer.busy;
      if (answer.yes) {
        refusals_.restart();
        return answer;
      }
      refusals_.refused(tuning::kMaxSlabWait);
    }
    return {.busy = shares_};
  }
  // Another thread's lane.
  void restart() { refusals_.restart(); }

 private:
  Backoff refusals_;
  bool shares_ = false;  // it was refused since as many others as can run are at work
};

}  // namespace memo
