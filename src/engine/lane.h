// A lane: what serves one thread's stream of large allocations. Hot.
//
// A lane asks its tracker (src/engine/tracker.h) what to do, and its hands (src/engine/hands.h) do
// it. Exactly one thread owns a lane at a time: its calls are served, those of a former owner, from
// which the lane was taken over, go to the lane that it finds then. Any thread frees. `entered_`
// keeps out a signal handler's allocation in the middle of another, maintenance by other threads,
// and who takes the lane over; only a thread that ends waits for it.
#pragma once

#include <atomic>
#include <cstdint>

#include "src/base/counters.h"
#include "src/base/guard.h"
#include "src/base/lock.h"
#include "src/engine/lane_owner.h"
#include "src/engine/shared.h"

namespace memo {

class Lane : public LaneOwner {
 public:
  // A block for the request, or nullptr: the underlying allocator's. By the owner, or by a former one.
  void* allocate(const Request& request);
  // The same of a recorded stream, whose call stacks are known; 0: not.
  void* allocate(const Request& request, std::uint64_t site);
  // Counts a block of the underlying allocator that realloc has made large; false, and it is not counted,
  // if the lane is another's or just at work.
  bool note_foreign_growth(std::uint64_t bytes);
  // The host begins an iteration of the owner's.
  void iteration(const RecursionGuard& guard);

  // Releases a block of the pool (of `bytes`, this lane's); false if none starts there. Any thread.
  bool free_pooled(void* start, std::uint64_t bytes, std::uint32_t freeing_lane, bool bare = false);
  // A block of this lane's slab, in `space`, is about to be released. Any thread.
  void note_death(Space& space, void* start, std::uint32_t freeing_lane);
  // A block of the pool of this lane was changed in size, in place; bytes. Any thread. Always true.
  bool resized(std::uint64_t before, std::uint64_t after) {
    hands_.live.fetch_add(after - before, std::memory_order_relaxed);
    return true;
  }

  // Gives back the slab's memory that no block uses, and what of it no block lies behind counts as
  // the process' no more; the plan and its place are kept, and the next call takes the memory
  // again. Any thread; false if the lane is just at work.
  bool give_back();
  // Lends its slab's memory to another lane's slab, if no block is in use. Any thread.
  bool lend(Slab& slab);
  // Gives memory back if the lane has been quiet for long, or, where memory is `scarce`, since the
  // last tick; tells whether it has been for long. Any thread.
  bool tick(Nanos now, bool scarce);

 private:
  // Runs function() in the lane, if it is the calling thread's, and just not at work; or false.
  template <typename Function>
  bool with_lane(Function&& function) {
    const TryLock entered(entered_);
    const bool mine = entered && lease_.mine();
    if (mine) {
      function();
    }
    return mine;
  }
  void* glide(const Request& request, const Step& step);
  void* called(const Request& request, std::uint64_t site);
  void* turn_away(const Request& request, std::uint64_t site);
  bool wake();

  Quiet quiet_;
};

// The calling thread's lane; nullptr if it has none, or had one that was taken over.
inline Lane* my_lane() {
  Lane* const lane = t_state.lane;
  return lane != nullptr && lane->mine() ? lane : nullptr;
}

}  // namespace memo
