// What all lanes share, and what a lane is asked for. Hot.
#pragma once

#include <atomic>
#include <cstdint>

#include "src/base/counters.h"
#include "src/base/guard.h"
#include "src/base/interrupts.h"
#include "src/base/options.h"
#include "src/base/own_stack.h"
#include "src/engine/plan_store.h"
#include "src/serve/pool.h"
#include "src/serve/slabs.h"
#include "src/trace/event.h"

namespace memo {

struct Request {
  std::uint64_t size = 0;
  std::uint64_t alignment = 16;  // bytes, a power of two
  Op op = Op::k_malloc;
  bool zero = false;
};

class Catalogue;

// What the engine asks of its host; each may be null.
struct EngineHost {
  void (*trim_next)() = nullptr;  // give back what the underlying allocator keeps
  // The calling thread has a lane, its first or another one: call thread_ended() at its end.
  void (*new_thread)() = nullptr;
  // Or much may have been counted since: for the statistics.
  void (*phase_changed)(const RecursionGuard&) = nullptr;
  // There is a lane, and stack enough: add plans, if there are any.
  void (*opened)(const RecursionGuard&) = nullptr;
  Catalogue* outside = nullptr;  // plans that the host could fetch
  // Add those whose calls have `key`; `look`: and see whether there are new ones. Where the
  // catalogue is open.
  void (*fetch)(const RecursionGuard&, std::uint64_t key, bool look) = nullptr;
  // There is memory that may have to be given back later, or there are reports: see to it that
  // tick() is called every second or so, until the engine rests. Told by calls and by frees.
  void (*start_background_thread)(const RecursionGuard&) = nullptr;
  // This is a child; `told`: of fork(), whose handlers have run.
  void (*forked)(bool told) = nullptr;
  bool (*alone)() = nullptr;  // no thread but the calling one is known to exist
};

class Lane;

struct Shared {
  // A lane's phase has changed, or it is time to tell again.
  void tell_host() const {
    if (host.phase_changed != nullptr) {
      const NoInterrupts whole;
      const RecursionGuard guard;
      os::run_on_own_stack([&] { host.phase_changed(guard); });
    }
  }
  void trim_next() const {
    if (host.trim_next != nullptr) {
      const RecursionGuard guard;
      host.trim_next();
    }
  }
  void start_background_thread() const {
    if (host.start_background_thread != nullptr) {
      const RecursionGuard guard;
      host.start_background_thread(guard);
    }
  }

  PlanStore store;
  Pool pool;
  Slabs slabs;
  EngineHost host;
  Counters* passed_on = nullptr;             // of calls that no lane takes, in any thread
  std::atomic<Nanos> aged_at;                // the pool, last
  std::atomic<Nanos> told_at;                // the host, last without a change of phase
  std::atomic<std::uint32_t> lane_count{0};  // lanes ever taken; read by lanes_taken()
  bool timeless = false;  // a recorded stream: how long ago something was says nothing
  bool keep_trace = false;
  const Options* options = nullptr;
  Lane* lanes = nullptr;  // all of them, of which lane_count were ever taken
  // A lane that serves asks for the background thread, however little memory there is.
  bool reports = false;

  // So much is free in the pool and in slabs that somebody should give it back when the loop is
  // left. Any thread.
  [[nodiscard]] bool keeps_much() const {
    return pool.held().dirty_bytes() + slabs.bytes.load(std::memory_order_relaxed) >= tuning::kKept;
  }
  // How many of `lanes` there are to look at. Any thread; a lane below it is whole.
  [[nodiscard]] std::uint32_t lanes_taken() const {
    return lane_count.load(std::memory_order_acquire);
  }
};

// The pool has served or freed a block for a lane that counts `calls` of its. Asks the host for the
// background thread where much is kept, or where there are reports of a lane that `serves`. Any
// thread that is not inside the library.
void ask_for_background_thread(const Shared& shared, std::uint64_t calls, bool serves = false);

// Gives back what the pool has not needed for long, and tells the host that time has passed; at
// most now and then.
void age(Shared& shared);

// Under a cgroup's limit: what all lanes but number `at_work`, the pool and the underlying
// allocator hold and do not use goes back to the system. A lane in the middle of an iteration keeps
// its slab's height: a slab that had to be taken again would be ready as a whole, beside what the
// pool serves meanwhile.
void give_back_idle(Shared& shared, std::uint32_t at_work);

// Takes a slab for the wish from the lane that holds it by `word` and has not used it for kIdle;
// false if a block is in it, or that lane is just at work.
bool take_idle_slab(const Shared& shared, Slab& slab, std::uint64_t word, const SlabWish& wish);

}  // namespace memo
