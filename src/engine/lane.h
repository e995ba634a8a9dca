// A lane: what follows one thread's stream of large allocations. Hot.
//
//            the stream repeats            quiet point reached
//  kLearning ------------------> kReady ----------------------> kServing   most calls differ:
//  kLearning
//     |                            ^
//     | no period for long         |           a known plan fits: kServing at once, from either
//     +-------> kPooling ----------+
//
// While serving, the slab gives the memory, and the arena what does not match; in every other phase
// the arena. Pooling is learning that has found an order no plan can follow (pools of threads,
// sizes at random): the arena serves from the concurrent peak that it has learned, and a period is
// still looked for until the recorder has been full several times. A lane that has no memory for a
// recorder pools, follows known plans, and asks again. Exactly one thread owns a lane at a time and
// is the only one to call it, but for free(), which any thread may call. `entered_` keeps out a
// signal handler's allocation in the middle of another, and maintenance by other threads; only a
// thread that ends waits for it.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>

#include "src/base/backoff.h"
#include "src/base/counters.h"
#include "src/base/guard.h"
#include "src/base/lock.h"
#include "src/base/options.h"
#include "src/base/tuning.h"
#include "src/engine/placer.h"
#include "src/engine/plan_store.h"
#include "src/follow/cursor.h"
#include "src/follow/layout.h"
#include "src/follow/repeat.h"
#include "src/serve/pool.h"
#include "src/serve/space.h"
#include "src/serve/touched.h"
#include "src/trace/recorder.h"
#include "src/trace/signature.h"

namespace memo {

struct LearnOptions;
struct Period;

struct Request {
  std::uint64_t size = 0;
  std::uint64_t alignment = 16;  // bytes, a power of two
  Op op = Op::k_malloc;
  bool zero = false;
};

enum class Phase : std::uint8_t { kIdle, kLearning, kReady, kServing, kPooling };
const char* name_of(Phase phase);

// What was served, by a plan or from memory at hand, since a lane began to serve.
struct Served {
  std::uint64_t allocations = 0;
  std::uint64_t bytes = 0;
  std::uint64_t large_bytes = 0;  // asked for meanwhile, served or not
};

class Lane;

// What all lanes share.
struct Shared {
  PlanStore store;
  Pool pool;
  Counters* passed_on = nullptr;             // of calls that no lane takes, in any thread
  std::atomic<std::uint64_t> aged_at{0};     // when the pool last aged, ns
  std::atomic<std::uint32_t> lane_count{0};  // lanes ever taken
  std::atomic<std::uint64_t> slab_bytes{0};  // height of all slabs that have memory
  std::uint64_t slab_limit = 0;
  std::uint64_t threshold = 0;  // bytes; smaller blocks are not seen
  std::uint64_t verbose = 0;
  Choice huge_pages = Choice::kAuto;
  bool keep_trace = false;
  bool keep_sites = false;  // a trace or a plan file wants the call stacks of all calls
  const Options* options = nullptr;
  Lane* lanes = nullptr;          // all of them, of which lane_count were ever taken
  void (*trim_next)() = nullptr;  // gives back what the next allocator keeps
  void (*phase_changed)(const RecursionGuard&) =
      nullptr;  // or much may have been counted since: for the statistics
  void (*keep)(const RecursionGuard&) =
      nullptr;  // there is memory that may have to be given back later, or there are reports
  bool reports = false;  // whoever serves asks for the keeper, however little memory there is
};

class Lane {
 public:
  // Ties the lane to its slab's space and its number. Once, before any other call.
  void open(Shared* shared, std::uint32_t number, Space* slab);

  // Somebody owns the lane from now on, until leave(); the calling thread, once it follows.
  // Requires vacant(). Under the registry's lock.
  void enter();
  // The lane learns from the calling thread, whose stack this is: takes the memory for it.
  void follow_thread(const StackBounds& stack);
  void leave();
  // True if nobody owns the lane. Under the registry's lock.
  bool vacant();
  [[nodiscard]] Phase phase() const { return phase_.load(std::memory_order_acquire); }

  // A block for the request, or nullptr: the next allocator's. Owner only.
  void* allocate(const Request& request);
  // Counts a block of the next allocator that realloc has made large. Owner only.
  void note_foreign_growth(std::uint64_t bytes);
  // The host begins an iteration. Owner only.
  void iteration(const RecursionGuard& guard);

  // Releases a block of the pool (of `bytes`, this lane's) or of this lane's slab; false if none
  // starts there. Any thread.
  bool free_pooled(void* start, std::uint64_t bytes, std::uint32_t freeing_lane);
  bool free_slab(void* start, std::uint32_t freeing_lane);

  // A block of the pool of this lane was changed in size, in place; bytes. Any thread. Always true.
  bool resized(std::uint64_t before, std::uint64_t after) {
    live_.fetch_add(after - before, std::memory_order_relaxed);
    return true;
  }

  // Gives back the slab's memory that no block uses, and what of it no block lies behind counts as
  // the process' no more; the plan and its place are kept, and the next call takes the memory again. Any thread; false if the lane is just at work.
  bool give_back();
  // Gives memory back if the lane has been quiet for long, or, where memory is `scarce`, since the
  // last tick; tells whether it has been for long. `now` in nanoseconds. Any thread.
  bool tick(std::uint64_t now, bool scarce);
  // In a forked child, where only the forking thread lives on: no plan, no slab, learning anew.
  // False, and it is done at the next call, if the fork has interrupted the lane at work.
  bool after_fork();
  // In a forked child: the lane's owner does not exist any more. Its blocks stay where they are.
  void orphan();

  // True if the phase, the plan and the slab agree. No other thread may be at work.
  [[nodiscard]] bool valid() const;
  [[nodiscard]] std::uint64_t slab_height() const { return slab_height_; }

  [[nodiscard]] const Space& slab_space() const { return *slab_space_; }
  [[nodiscard]] const Recorder& recorder() const { return recorder_; }
  // Greatest height that the slab has had, bytes, and the greatest bound of the plans served from
  // it.
  [[nodiscard]] std::uint64_t tallest() const { return tallest_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t bound() const { return bound_.load(std::memory_order_relaxed); }
  [[nodiscard]] double plan_seconds() const {
    return plan_seconds_.load(std::memory_order_relaxed);
  }

  // From the first plan on, or before it from the first block that the pool had at hand while
  // pooling. Any thread.
  [[nodiscard]] Served served() const;

  Counters counters;

 private:
  bool prepare_to_learn();
  bool learns_again();
  void look_for_period();
  void forget_stream();
  void start_anew();
  void* serve(const Request& request);
  void end_iteration();
  void* learn(const Request& request, std::uint64_t site);
  void* pool(const Request& request, bool missed = false);
  void clear(void* start, std::uint64_t bytes);
  void age_pool();
  void count_planned(std::uint64_t bytes);
  void count_at_hand(std::uint64_t bytes);
  void count_other(std::uint64_t bytes);
  void begin_to_count_served();
  void count_fallback(std::uint64_t bytes, Counter& reason);
  void fall_back(const Request& request, Miss miss);
  void forget_counts();
  void purge_slab();
  void wake();
  // A period is being looked for.
  [[nodiscard]] bool searching() const {
    return phase() == Phase::kLearning || phase() == Phase::kPooling;
  }
  [[nodiscard]] bool wants_sites() const {
    return short_windows_ >= tuning::kShortWindows && searched_ < tuning::kSitesUntil;
  }
  void look_for_pool();
  void judge_pool(std::uint64_t bytes, bool at_hand);
  using LearnDoor = Plan(const RecursionGuard&, std::span<const Allocation>, const LearnOptions&,
                         Period*) noexcept;
  StoredPlan* make_plan(LearnDoor& door, Period* period);
  void try_to_learn();
  void try_symbolic();
  [[nodiscard]] LearnOptions learn_options() const;
  bool take_shape(std::uint64_t first, std::uint32_t step);
  void change_shape(std::uint64_t first, std::uint32_t step);
  void follow_shape(std::uint64_t size);
  void find_shape(std::uint64_t size, bool matched);
  void follow_known_plans(std::uint64_t size);
  bool guess_plan(std::uint64_t size);
  bool follow_other_plans(std::uint64_t size, bool matched);
  bool take_plan(const Follower::Found& found);
  [[nodiscard]] bool completed();
  bool can_lay_out(std::uint32_t steps);
  [[nodiscard]] const Schedule* serving_schedule() const;
  void wait_for_quiet(std::uint64_t size);
  bool take_memory(const Schedule& schedule);
  void give_plan_up();
  bool begin_plan();
  void start_serving();
  void diverge();
  void drop_plan();
  bool open_slab(const Schedule& schedule);
  bool make_room(std::uint64_t height);
  bool reserve_slab(std::uint64_t height, bool whole);
  void lower_slab(std::uint64_t height);
  void purge_free(std::uint64_t from, std::uint64_t to);
  void set_phase(Phase phase);

  Shared* shared_ = nullptr;
  std::uint32_t number_ = 0;
  std::atomic<Phase> phase_{Phase::kIdle};
  Lock entered_;
  Space* slab_space_ = nullptr;
  std::atomic<std::uint64_t> live_{
      0};  // bytes of the pool's blocks of this lane, in whole granules
  Placer placer_;
  Layout layout_;       // serving a symbolic plan: the iteration at hand
  Cursor other_shape_;  // in that plan, since a call did not match
  std::uint64_t layout_steps_ = tuning::kMaxLayoutSteps;  // that may be laid out now
  std::uint64_t layout_calls_ = 0;  // large allocations when that was worked out
  StoredPlan* plan_ = nullptr;
  Cursor cursor_;                  // where in the plan serving is to begin
  std::uint64_t quiet_level_ = 0;  // kReady: live bytes at which to start
  std::uint32_t patience_ = 0;     // kReady: calls until starting anyway
  std::uint64_t placed_ = 0;       // allocations that the plan has placed since it was taken up
  std::atomic<std::uint64_t> slab_height_{0};  // bytes of slab that have memory
  std::atomic<std::uint64_t> tallest_{0};
  std::atomic<std::uint64_t> bound_{0};
  std::atomic<double> plan_seconds_{0};
  std::uint64_t seen_ = 0;              // large allocations at the last tick
  std::uint64_t quiet_since_ = 0;       // ns
  std::atomic<bool> awake_{true};       // the keeper has not given memory back since the last call
  bool forked_ = false;                 // a fork has interrupted the lane: it is to start anew
  std::atomic<bool> abandoned_{false};  // the owner has ended or does not exist, and has not left
  bool refused_ = false;                // there was no memory for the last slab asked for
  std::uint32_t searched_ = 0;  // calls since a period was last known, or the pool grew by much
  std::uint64_t searched_peak_ = 0;  // the pool's peak then, bytes
  std::uint32_t same_peak_ = 0;      // calls since the arena's peak last grew
  std::uint64_t last_peak_ = 0;      // bytes
  std::uint32_t window_calls_ = 0;   // pooling: calls in this window
  std::uint64_t window_bytes_ = 0;   // and what they asked for
  std::uint64_t window_lacked_ = 0;  // of that, what the pool had no memory at hand for
  std::uint32_t short_windows_ = 0;  // windows in which it lacked much, since a period was known
  Touched touched_;                  // how much of its blocks is written
  bool walks_whole_ = false;         // has gone through a whole plan, or made one
  bool planned_ = false;             // a plan was served from
  // The counters when the lane began to serve.
  std::atomic<bool> serves_{false};
  std::atomic<std::uint64_t> served_allocations_before_{0};
  std::atomic<std::uint64_t> served_bytes_before_{0};
  std::atomic<std::uint64_t> large_bytes_before_{0};
  std::uint32_t restarts_ = 0;  // of a full recorder
  Follower follower_;
  bool following_ = false;  // serving, but a call did not match: other plans are followed as well
  Recorder recorder_;
  std::uint32_t* history_ = nullptr;  // of repeat_ and site_repeat_
  std::atomic<bool> learns_{false};   // there are a recorder and a history
  Backoff memory_to_learn_;           // asks for them again
  Repeat repeat_;
  // The stream goes in a loop, as repeat_ says; read by whoever frees.
  std::atomic<bool> looping_{false};
  Repeat site_repeat_;          // of call sites instead of sizes, while sizes do not repeat
  std::uint32_t symbolic_ = 0;  // symbolic plans made
  StackBounds stack_;
  std::uint32_t marks_[tuning::kMaxMarks] = {};  // allocations recorded before each told iteration
  std::uint32_t mark_count_ = 0;
};

}  // namespace memo
