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

#include "src/base/counters.h"
#include "src/base/guard.h"
#include "src/base/lock.h"
#include "src/base/tuning.h"
#include "src/engine/demand.h"
#include "src/engine/placer.h"
#include "src/engine/plan_store.h"
#include "src/engine/served.h"
#include "src/engine/stream_log.h"
#include "src/follow/cursor.h"
#include "src/follow/repeat.h"
#include "src/follow/shapes.h"
#include "src/serve/pool.h"
#include "src/serve/slab.h"
#include "src/serve/touched.h"
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

// What all lanes share.
struct Shared {
  PlanStore store;
  Pool pool;
  SlabBooks slabs;
  Counters* passed_on = nullptr;             // of calls that no lane takes, in any thread
  std::atomic<std::uint64_t> aged_at{0};     // when the pool last aged, ns
  std::atomic<std::uint32_t> lane_count{0};  // lanes ever taken
  std::uint64_t plan_milliseconds = 20;
  std::uint64_t threshold = 0;  // bytes; smaller blocks are not seen
  std::uint64_t verbose = 0;
  bool keep_trace = false;
  bool keep_sites = false;  // a trace or a plan file wants the call stacks of all calls
  const char* planner = "portfolio";
  void (*trim_next)() = nullptr;  // gives back what the next allocator keeps
  void (*phase_changed)(const RecursionGuard&) = nullptr;  // for the statistics file
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
  // Gives memory back if the lane has been quiet for long, and tells whether it has. `now` in
  // nanoseconds. Any thread.
  bool tick(std::uint64_t now);
  // In a forked child, where only the forking thread lives on: no plan, no slab, learning anew.
  // False, and it is done at the next call, if the fork has interrupted the lane at work.
  bool after_fork();
  // In a forked child: the lane's owner does not exist any more. Its blocks stay where they are.
  void orphan();

  // True if the phase, the plan and the slab agree. No other thread may be at work.
  [[nodiscard]] bool valid() const;
  [[nodiscard]] std::uint64_t slab_height() const { return slab_.height(); }

  [[nodiscard]] const Space& slab_space() const { return slab_.space(); }
  [[nodiscard]] const Recorder& recorder() const { return log_.recorder; }
  // Greatest height that the slab has had, bytes, and the greatest bound of the plans served from
  // it.
  [[nodiscard]] std::uint64_t tallest() const { return slab_.tallest(); }
  [[nodiscard]] std::uint64_t bound() const { return bound_.load(std::memory_order_relaxed); }
  [[nodiscard]] double plan_seconds() const {
    return plan_seconds_.load(std::memory_order_relaxed);
  }

  // From the first plan on, or before it from the first block that the pool had at hand while
  // pooling. Any thread.
  [[nodiscard]] Served served() const { return served_.get(counters); }

  Counters counters;

 private:
  bool prepare_to_learn();
  void begin_histories();
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
  void count_fallback(std::uint64_t bytes, Counter& reason);
  void fall_back(const Request& request, Miss miss);
  void forget_counts();
  void purge_slab();
  void wake();
  // A period is being looked for.
  [[nodiscard]] bool searching() const {
    return phase() == Phase::kLearning || phase() == Phase::kPooling;
  }
  void look_for_pool();
  using LearnDoor = Plan(const RecursionGuard&, std::span<const Allocation>, const LearnOptions&,
                         Period*) noexcept;
  StoredPlan* make_plan(LearnDoor& door, Period* period);
  void try_to_learn();
  void try_symbolic();
  [[nodiscard]] LearnOptions learn_options() const;
  bool take_shape(const Shapes::Start& start);
  void change_shape(const Shapes::Start& start);
  void follow_shape(std::uint64_t size);
  void find_shape(std::uint64_t size, bool matched);
  void follow_known_plans(std::uint64_t size);
  bool guess_plan(std::uint64_t size);
  bool follow_other_plans(std::uint64_t size, bool matched);
  bool take_plan(const Follower::Found& found);
  [[nodiscard]] bool completed();
  bool can_lay_out(std::uint32_t steps) {
    return shapes_.afford(steps, counters.large_allocations.get());
  }
  [[nodiscard]] const Schedule* serving_schedule() const;
  void wait_for_quiet(std::uint64_t size);
  bool take_memory(const Schedule& schedule);
  void give_plan_up();
  bool begin_plan();
  void start_serving();
  void diverge();
  void drop_plan();
  bool open_slab(const Schedule& schedule);
  void set_phase(Phase phase);

  Shared* shared_ = nullptr;
  std::uint32_t number_ = 0;
  std::atomic<Phase> phase_{Phase::kIdle};
  Lock entered_;
  Slab slab_;
  std::atomic<std::uint64_t> live_{
      0};  // bytes of the pool's blocks of this lane, in whole granules
  Placer placer_;
  Shapes shapes_;  // serving a symbolic plan
  StoredPlan* plan_ = nullptr;
  Cursor cursor_;                  // where in the plan serving is to begin
  std::uint64_t quiet_level_ = 0;  // kReady: live bytes at which to start
  std::uint32_t patience_ = 0;     // kReady: calls until starting anyway
  std::uint64_t placed_ = 0;       // allocations that the plan has placed since it was taken up
  std::atomic<std::uint64_t> bound_{0};
  std::atomic<double> plan_seconds_{0};
  std::uint64_t seen_ = 0;              // large allocations at the last tick
  std::uint64_t quiet_since_ = 0;       // ns
  std::atomic<bool> awake_{true};       // the keeper has not given memory back since the last call
  bool forked_ = false;                 // a fork has interrupted the lane: it is to start anew
  std::atomic<bool> abandoned_{false};  // the owner has ended or does not exist, and has not left
  Demand demand_;
  Touched touched_;           // how much of its blocks is written
  bool walks_whole_ = false;  // has gone through a whole plan, or made one
  bool planned_ = false;      // a plan was served from
  ServedSince served_;
  std::uint32_t restarts_ = 0;  // of a full recorder
  Follower follower_;
  bool following_ = false;  // serving, but a call did not match: other plans are followed as well
  StreamLog log_;
  Repeat repeat_;
  // The stream goes in a loop, as repeat_ says; read by whoever frees.
  std::atomic<bool> looping_{false};
  Repeat site_repeat_;          // of call sites instead of sizes, while sizes do not repeat
  std::uint32_t symbolic_ = 0;  // symbolic plans made
  StackBounds stack_;
};

}  // namespace memo
