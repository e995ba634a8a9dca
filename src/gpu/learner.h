// What one stream of large allocations on a device is to get: learns its loop, follows its plan,
// and knows no memory. The matching and planning are the CPU engine's (src/follow, src/learn).
//
//   learning --a plan is made, or is known--> waiting --its lowest point--> serving
//      ^                                        |                             |
//      +-------------- a call differs ----------+------ most calls differ ----+
//
// Under the device's lock. Cold, but for next(), which costs a comparison while a plan is served.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "src/base/growing_array.h"
#include "src/follow/cursor.h"
#include "src/follow/placer.h"
#include "src/follow/plan.h"
#include "src/follow/plan_name.h"
#include "src/follow/repeat.h"
#include "src/gpu/plan_store.h"
#include "src/trace/event.h"

namespace memo::gpu {

class Learner {
 public:
  explicit Learner(PlanStore& plans);

  struct Answer {
    const Step* step = nullptr;  // whose place the call has; null: none
    bool opened = false;         // from this call on a plan is served
  };
  // The stream asks for `bytes`.
  Answer next(std::uint64_t bytes);
  // The slab's memory is needed elsewhere: nothing is served until a loop is seen again.
  void refuse();
  // The step's place was not free.
  void occupied(std::uint64_t bytes) {
    placer_.note_in_the_way(bytes);
    ++occupied_;
  }

  // Names the allocation of the latest next(), for freed().
  [[nodiscard]] std::uint64_t latest() const { return number_ - 1; }
  // The allocation `number` was freed, before the next call.
  void freed(std::uint64_t number);

  [[nodiscard]] const Schedule* serving() const {
    return phase_ == Phase::kServing ? placer_.schedule() : nullptr;
  }
  [[nodiscard]] const char* phase() const;
  [[nodiscard]] std::uint64_t iterations() const { return iterations_; }
  // Steps at which a new iteration begins: the last call was one.
  [[nodiscard]] bool wrapped() const { return serving() != nullptr && placer_.wrapped(); }

 private:
  enum class Phase : std::uint8_t { kLearning, kWaiting, kServing };

  void record(std::uint64_t bytes);
  void look();
  void restart();
  bool adopt();
  bool adopt_cached();
  void wait_for(std::shared_ptr<StoredPlan> plan, StepIndex next);
  Answer serve(std::uint64_t bytes);
  [[nodiscard]] bool unfit() const;
  void leave();

  static constexpr std::uint64_t kMostCalls = 1U << 19;  // in the log; then it begins again

  PlanStore& plans_;
  Phase phase_ = Phase::kLearning;
  std::vector<Allocation> log_;
  std::uint64_t number_ = 0;  // calls ever
  std::uint64_t first_ = 0;   // number of the log's first
  GrowingArray<std::uint32_t> history_;
  Repeat repeat_;
  bool repeats_ = false;  // history_ has addresses
  Recent recent_;
  CallWindow window_;
  std::vector<Cursor> cursors_;  // one for each of plans_.all
  std::uint64_t entered_ = 0;    // plans_.entered() when they began
  std::shared_ptr<StoredPlan> plan_;
  Cursor cursor_;               // waiting
  StepIndex quiet_;             // waiting: the step before which the fewest bytes are alive
  Placer placer_;               // serving
  std::uint64_t served_ = 0;    // calls of this plan in a row of service
  std::uint64_t misses_ = 0;    // calls that were no step, since serving began
  std::uint32_t occupied_ = 0;  // steps of this iteration whose places were not free
  std::uint32_t poor_ = 0;      // iterations in a row with many of them
  std::uint64_t iterations_ = 0;
};

}  // namespace memo::gpu
