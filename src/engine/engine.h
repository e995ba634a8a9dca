// The engine: all lanes and the region they live in. Hot. One constinit object per process
// (preload/lifecycle.cc), or as many as a unit test likes.
//
// It answers nullptr for "not mine"; only its caller knows the next allocator.
#pragma once

#include <atomic>
#include <cstdint>

#include "src/base/backoff.h"
#include "src/base/fork_mark.h"
#include "src/base/lock.h"
#include "src/base/options.h"
#include "src/base/os.h"
#include "src/base/tuning.h"
#include "src/engine/lane.h"

namespace memo {

// What lies at an address of the engine's region.
struct Place {
  const void* start = nullptr;
  std::uint64_t bytes = 0;  // of the block, in whole granules; 0: there is none
  bool in_use = false;      // else a block started there last, and is free
  bool in_slab = false;     // else in the pool
  std::uint32_t lane = 0;   // whose slab it is, or for whom the pool gave it
};

class Engine {
 public:
  constexpr Engine() = default;

  using Host = EngineHost;
  // Takes the options; nothing is set up before the first large allocation. Once, before
  // allocate().
  void configure(const Options& options, const Host& host);

  // A block for the request, or nullptr: the next allocator's. Any thread. Requires size >= 1.
  void* allocate(const Request& request);
  // True if the pointer lies in the engine's region; free, size and resize take such pointers only.
  [[nodiscard]] bool owns(const void* pointer) const {
    // The size is published last and read first: while it is zero, nothing is owned.
    const std::uint64_t bytes = bytes_.load(std::memory_order_acquire);
    return reinterpret_cast<std::uint64_t>(pointer) - base_.load(std::memory_order_relaxed) < bytes;
  }
  // Releases the block; false if none starts at `pointer`. Any thread.
  bool free(void* pointer);
  // Usable bytes of the block, 0 if none starts at `pointer`.
  [[nodiscard]] std::uint64_t size(const void* pointer) const;
  // What lies at the pointer, for messages: the block in use that it points into, or the freed one
  // that started there.
  [[nodiscard]] Place find(const void* pointer) const;
  // True if a block of the engine may have been asked for with `bytes`: a size that a sized free
  // names. A block of a slab may have been made smaller by resize(), down to half of it.
  [[nodiscard]] bool may_have_size(const void* pointer, std::uint64_t bytes) const;
  // A block was left larger than the host asked for, since there was no other memory: from now on
  // no size is too small.
  void note_left_larger() { left_larger_.store(true, std::memory_order_relaxed); }
  // Changes the size in place where that is possible without waste.
  bool resize(void* pointer, std::uint64_t bytes);

  // The host begins an iteration on the calling thread.
  void iteration();
  // Gives all slabs and unused memory back, on request.
  void give_back();
  // The next allocator was refused memory for a block of `bytes`: gives up what slabs, pool and that allocator hold
  // and do not use, so that a limit on data, or on what may be committed, is met as early as without
  // this library. True if it is worth asking again. Costs milliseconds and the faults of taking the
  // memory again, so a program that is refused time and again is helped less and less often.
  bool relieve(std::uint64_t bytes);
  // Adds a plan of an earlier process once there is a lane. Where it does not fit the program, it is
  // never taken up: it gets no slab, and of a parametric plan what the file leaves out is not
  // made, before calls have matched it. Nobody's use of it is counted; nullptr if there is no room.
  StoredPlan* add_plan(const RecursionGuard& guard, Plan plan, std::uint32_t iteration);
  // Runs function(plan) for each plan, which from then on is kept until release_plan(). Waits for a
  // thread that changes the store, though not for ever, and not at all if it is the calling one: a
  // signal's handler may end the process.
  template <typename Function>
  void for_each_plan(Function&& function) {
    const auto keep = [&](StoredPlan& plan, std::uint32_t) {
      shared_->store.hold(plan);
      function(plan);
    };
    for (std::uint64_t i = 0;
         opened() && !shared_->store.for_each(keep) && i < tuning::kForkPatience / 1'000'000 &&
         !shared_->store.lock().held_by_me() && os::rest();
         ++i) {
    }
  }
  void release_plan(StoredPlan& plan) { shared_->store.release(&plan); }
  // Gives memory back where a lane has been quiet for long. True at rest: all lanes have been, and
  // no slab has memory. One thread at a time; `now` in nanoseconds.
  bool tick(std::uint64_t now);
  // Looks for a lower plan than one that was made in the time allowed on a caller's path; takes
  // seconds. The lanes put it in between two iterations. Any thread that may take so long; needs
  // the stack of a planner.
  void search(const RecursionGuard& guard);
  // True if search() would find something to do.
  [[nodiscard]] bool wants_search() const;
  // Gives unused memory outside the slabs back; true if there was some.
  bool trim();
  void thread_ended();

  // Around fork(), in a signal's handler too: the parent takes the locks, so that the child finds
  // whole what they guard. What a frame of the calling thread holds stays as it is: in the child
  // that frame goes on as well. What others hold for too long the child does without.
  void before_fork();
  void after_fork_in_parent();
  void after_fork_in_child();
  // From now on children are noticed that no handler tells of. Comes by itself with the first lane.
  bool mark_process() { return mark_.open(); }
  // False in a forked child that has not been noticed yet.
  [[nodiscard]] bool here() const { return mark_.here(); }
  // True in a process that has been forked since the engine was configured or marked.
  [[nodiscard]] bool forked() const { return forked_ || !mark_.here(); }

  [[nodiscard]] std::uint32_t lane_count() const { return opened() ? shared_->lanes_taken() : 0; }
  [[nodiscard]] const Lane& lane(std::uint32_t number) const { return lanes_[number]; }
  [[nodiscard]] const Shared& shared() const { return *shared_; }
  // Lowest address of the region; UINT64_MAX before there is one.
  [[nodiscard]] std::uint64_t base() const { return base_.load(std::memory_order_relaxed); }
  // A block of the next allocator has grown to `bytes`, which is large, by realloc.
  void note_foreign_growth(std::uint64_t bytes);
  // Counts a large call that no lane takes and the next allocator gets, and answers nullptr. Out of
  // line, for a fast path without a frame.
  [[gnu::cold, gnu::noinline]] void* pass_on(std::uint64_t bytes, Counter Counters::* reason);
  // Those calls, of all threads.
  [[nodiscard]] const Counters& passed_on() const { return passed_on_; }
  // True if the books of lanes, plans and pool agree. Looks at all of them; no other thread may be
  // at work. For tests.
  [[nodiscard]] bool valid() const;
  [[nodiscard]] bool opened() const { return base_.load(std::memory_order_acquire) != kNowhere; }

 private:
  static constexpr std::uint64_t kNowhere = UINT64_MAX;
  static constexpr std::uint32_t kPoolSpace = 0;
  [[nodiscard]] std::uint32_t space_of(const void* pointer) const;
  // The locks that are taken for a fork, as bits of ThreadState::forks.
  static constexpr std::uint32_t kRegistry = 1;
  static constexpr std::uint32_t kStore = 2;
  static constexpr std::uint32_t kPool = 4;
  static constexpr std::uint32_t kForkBits = 3;

  [[gnu::noinline]] void* allocate_with_care(const Request& request);
  Lane* find_lane();
  Lane* adopt();
  bool open_region();
  void configure_shared();
  [[nodiscard]] std::uint64_t committed_bytes() const;
  Lane* take_lane(bool& busy);
  [[gnu::cold]] void notice_fork();
  void release_after_fork(std::uint32_t taken);
  void live_on(bool interrupted);

  std::atomic<std::uint64_t> base_{kNowhere};
  std::atomic<std::uint64_t> bytes_{0};  // of the region
  std::uint32_t space_shift_ = 0;
  std::uint32_t lanes_possible_ = 0;
  std::atomic<bool> told_{false};  // the host knows that the engine is open
  // Bytes of the pool that the last tick left, at rest; UINT64_MAX: it was none.
  std::uint64_t left_ = UINT64_MAX;
  bool torn_ = false;    // a child, in which a thread that does not exist was opening the region
  bool forked_ = false;  // a child
  ForkMark mark_;
  Space* spaces_ = nullptr;  // the pool's, then one a lane: its slab's
  Lane* lanes_ = nullptr;
  Shared* shared_ = nullptr;
  const Options* options_ = nullptr;
  Host host_;
  Lock registry_;
  Counters passed_on_;
  std::atomic<bool> left_larger_{false};
  Backoff relief_;  // refusals that relieve() lets pass
};

}  // namespace memo
