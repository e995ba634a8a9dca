// A lane: what serves one thread's stream of large allocations. Hot.
//
// Its tracker (src/engine/tracker.h) decides, by what it knows (src/engine/stream_knowledge.h),
// what its memory (src/engine/lane_memory.h) does. It is one thread's, from the thread's first
// large call to its end. Any thread frees. `entered_` keeps out a signal handler's allocation in
// the middle of another, and other threads, which give memory back or take an empty slab that was
// not used of late.
#pragma once

#include <atomic>
#include <cstdint>

#include "src/base/counters.h"
#include "src/base/guard.h"
#include "src/base/lock.h"
#include "src/engine/lane_memory.h"
#include "src/engine/shared.h"
#include "src/engine/stream_knowledge.h"
#include "src/engine/tracker.h"
#include "src/trace/signature.h"

namespace memo {

// Notices from time to time that calls have stopped.
class IdleClock {
 public:
  struct Look {
    bool rested = false;  // there were none since the last look
    Nanos time;           // nor for so long
  };
  // `calls` so far. One thread at a time.
  Look look(std::uint64_t calls, Nanos now) {
    const bool rested = calls == calls_;
    // There may have been none at the first look, but not for long.
    if (!rested || since_ == Nanos{0}) {
      calls_ = calls;
      since_ = now;
    }
    return {rested, now - since_};
  }

 private:
  std::uint64_t calls_ = 0;  // at the last look
  Nanos since_;
};

class Lane {
 public:
  // Once, before any other call. `common`: it is that of all threads that have none of their own.
  // Those take turns, and get blocks of the pool.
  void open(Shared* shared, std::uint32_t number, bool common = false);

  // The calling thread has the lane from now on, and is in the middle of a call of it until
  // begin(); false while another thread is at work on it.
  bool take();
  // The lane learns from the calling thread, whose stack this is: takes the memory for it.
  void begin(const StackBounds& stack);
  // The calling thread ends. Its blocks stay where they are. Where another has the lane for long,
  // the next to take it gives up slab and plan.
  void leave();
  // In a forked child, where only the forking thread lives on: no plan, no slab, learning again.
  // False, and it is done at the next call, if the fork has interrupted the lane at work.
  bool after_fork();
  // In a forked child: the lane's thread does not exist any more. Its blocks stay where they are.
  void orphan();

  // A block for the request, or nullptr: the underlying allocator's. By the lane's thread.
  void* allocate(const Request& request);
  // The same of a recorded stream, whose call stacks are known; 0: not.
  void* allocate(const Request& request, std::uint64_t site);
  // Counts a block of the underlying allocator that realloc has made large; false, and it is not
  // counted, if the lane is just at work.
  bool note_foreign_growth(std::uint64_t bytes);
  // The host begins an iteration of the thread's.
  void iteration(const RecursionGuard& guard);

  // Releases a block of the pool (of `bytes`, this lane's); false if none starts there. Any thread.
  bool free_pooled(void* start, std::uint64_t bytes, std::uint32_t freeing_lane, bool bare = false);
  // A block of this lane's, in `space`, is about to be released. Any thread.
  void note_death(Space& space, void* start, std::uint32_t freeing_lane);
  // A block of the pool of this lane, in `space`, was changed in size, in place; bytes. Any thread.
  void resized(Space& space, void* start, std::uint64_t before, std::uint64_t after);
  // A realloc in place has raised the pool's peak by `bytes`. Called by the lane's thread.
  void note_growth(std::uint64_t bytes) {
    with_lane([&] { memory_.note_growth(bytes); });
  }

  // Gives back the slab's memory that no block uses, and what of it no block lies behind counts as
  // the process' no more. The slab is free; the plan is kept, and the next call takes a slab again.
  // Any thread; nothing is done if the lane is just at work.
  void give_back();
  // The lane holds `slab` by `word`, and no block is in it: it is the wish's from now on. False if
  // that is not so, or the lane is just at work. Any thread.
  bool hand_over(Slab& slab, std::uint64_t word, const SlabWish& wish);
  // The lane holds `slab`: what is free of its [first, end) is given to nobody from now on. False
  // if that is not so, or the lane is at work for long. Any thread.
  bool keep_out(Slab& slab, Granules first, Granules end);
  // Gives memory back if the lane has been quiet for long, or, where memory is `scarce`, since the
  // last tick; tells whether it has been for long. Any thread.
  bool tick(Nanos now, bool scarce);
  // Around fork(), by the lane's thread: children get no copy of what is free of its slab. True:
  // the lane is locked until after_wiped(), and nobody takes the slab. False: nothing was done.
  bool wipe_free_on_fork();
  // The parent's children get copies again. A child is left as it is until it is noticed.
  void after_wiped(bool in_parent);
  // Runs function(slab), if the lane holds one and is not just at work, while nobody claims in it.
  // For a moment: calls of its thread wait, and go to the underlying allocator after 250 ms. Any
  // thread.
  template <typename Function>
  void with_slab(Function&& function) {
    const TryLock entered(entered_);
    if (entered && memory_.holds_slab()) {
      function(memory_.slab());
    }
  }

  // The calling thread is in the middle of a call of the lane: a handler has interrupted it.
  [[nodiscard]] bool at_work_here() const { return entered_.held_by_me(); }

  // What others see. Any thread, but for the tracker and the recorder: the lane's thread.
  [[nodiscard]] const Tracker& tracker() const { return tracker_; }
  [[nodiscard]] const Recorder& recorder() const { return knowledge_.log.recorder; }
  [[nodiscard]] Phase phase() const { return tracker_.phase(); }
  [[nodiscard]] Loop loop() const { return tracker_.loop(); }
  [[nodiscard]] StandingWords standing() const { return tracker_.standing(); }
  // The slab that the lane holds, or held last, or else any.
  [[nodiscard]] Slab& slab() const { return memory_.slab(); }
  // Bytes of the slab that it holds; 0 if it holds none.
  [[nodiscard]] std::uint64_t slab_height() const {
    const std::uint64_t word = slab().word();
    return !SlabWord::is_free(word) && SlabWord::lane(word) == memory_.number() ? slab().height()
                                                                                : 0;
  }
  // The generation of the plan that the slab is for, while serving; 0: none.
  [[nodiscard]] std::uint64_t plan() const {
    return phase() == Phase::kServing ? SlabWord::plan(slab().word()) : 0;
  }
  // Of the lane's blocks in the pool.
  [[nodiscard]] std::uint64_t owed() const { return memory_.debt.bytes(); }
  [[nodiscard]] double plan_seconds() const {
    return knowledge_.plan_seconds.load(std::memory_order_relaxed);
  }
  // From the first plan on, or before it from the first block that the pool had at hand while
  // pooling.
  [[nodiscard]] Served served() const { return tracker_.state().counts.served(); }
  // True if the phase, the plan and the slab agree. No other thread may be at work.
  [[nodiscard]] bool valid() const;

  Counters counters;
  std::uint32_t next_free = 0;  // in the list of lanes without a thread

 private:
  // Runs function() in the lane, if it is not at work; or false.
  template <typename Function>
  bool with_lane(Function&& function) {
    const TryLock entered(entered_);
    if (entered) {
      function();
    }
    return static_cast<bool>(entered);
  }
  void end_stream();
  void* enter(const Request& request, std::uint64_t site);
  void* serve_expected(const Request& request, const Step& step);
  void* end(const Request& request, const Outcome& outcome);
  [[nodiscard]] Call call_of(const Request& request, std::uint64_t site) const;
  void* wait(const Request& request, std::uint64_t site);
  void wake();
  void forget_counts();

  Lock entered_;
  Tracker tracker_;
  LaneMemory memory_;
  StreamKnowledge knowledge_;
  StackBounds stack_;
  IdleClock idle_;
  std::atomic<bool> taken_{false};  // by a thread, which may exist no more in a forked child
  bool torn_ =
      false;  // the thread ended in the middle of a call: nothing but the page maps is whole
  bool forked_ = false;  // a fork has interrupted a call, after which the lane starts again
};

// The calling thread's lane; nullptr if it has none.
inline Lane* my_lane() {
  return t_state.lane;
}

}  // namespace memo
