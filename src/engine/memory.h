// The memory behind a stream, as its tracker (src/engine/tracker.h) needs it: the one interface
// between deciding and doing. A lane's is src/engine/lane_memory.h; tests fake it. Hot.
#pragma once

#include <cstdint>

#include "src/engine/plan_store.h"
#include "src/follow/placer.h"
#include "src/trace/event.h"

namespace memo {

// A call of the stream, and what the process is like just now.
struct Call {
  std::uint64_t size = 0;  // bytes
  std::uint8_t alignment_log2 = 0;
  Op op = Op::k_malloc;
  std::uint64_t site = 0;  // of the call stack, 0 if unknown
  std::uint64_t live = 0;  // bytes of the lane's blocks in the pool
  std::uint64_t peak = 0;  // bytes of the pool in use at once, at most so far
};

// The slab's answer to a plan's place.
struct Claimed {
  Miss miss = Miss::kNone;  // why the call does not get it
  bool dirty = true;        // it does, and the place may hold old bytes
};

// The pool's answer to a call.
struct Given {
  void* start = nullptr;    // none: there is no block,
  bool busy = false;        // since others are at the pool
  bool zero = false;        // all of it is
  std::uint64_t lacks = 0;  // bytes of the block that had no memory; 0: the pool had all of it
  std::uint64_t again = 0;  // bytes of these that the pool once had, and has given back
};

// What a slab is to be opened for.
struct Opening {
  const Schedule& schedule;
  const StoredPlan& plan;  // of which that is one shape, or all
  StepIndex position;      // where serving begins
  // So many calls before that may be alive in the pool, and have a place in the slab as well.
  std::uint32_t calls = 0;
  bool trial = false;
};
// kBusy: none, since all slabs are in use.
enum class Opened : std::uint8_t { kRefused, kBusy, kOpened };

class Memory {
 public:
  // The slab's place of `offset` for the call.
  virtual Claimed claim(const Call& call, std::uint64_t offset) = 0;
  // True if a block in use begins there.
  virtual bool in_use(std::uint64_t offset) = 0;
  // A block of the pool.
  virtual Given give(const Call& call) = 0;
  // Memory for a plan.
  virtual Opened open(const Opening& opening) = 0;
  // Serving begins, or a plan on trial is believed: what learning held goes.
  virtual void begin_serving(bool trial, bool own) = 0;
  // An iteration has ended; the next one's first call has claimed [offset, offset + bytes).
  // `believed`: the plan was made of this stream, and is not on trial.
  virtual void end_iteration(std::uint64_t offset, std::uint64_t bytes, bool believed) = 0;
  // The slab's memory above the height goes.
  virtual void trim(std::uint64_t height) = 0;
  // The slab's memory that no block uses goes; `height`: and nothing of it is kept for the plan.
  virtual void give_back(bool height) = 0;
  // The pool may keep more than its peak; of a loop some, else more.
  virtual void allow_slack(bool loop) = 0;

 protected:
  ~Memory() = default;
};

}  // namespace memo
