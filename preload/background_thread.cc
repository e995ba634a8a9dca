#include "preload/background_thread.h"

#include <dlfcn.h>
#include <algorithm>
#include <atomic>

#include "preload/background_task.h"
#include "preload/process.h"
#include "preload/reports.h"
#include "preload/status.h"
#include "src/base/backoff.h"
#include "src/base/keep_errno.h"
#include "src/base/os.h"
#include "src/base/own_thread.h"
#include "src/base/tuning.h"

namespace memo {
namespace {

// One search, at the lowest priority, which an ordinary user's thread cannot raise again. So the
// background thread, which takes locks, must not search itself.
void search(const RecursionGuard& guard) {
  g_process.engine.plans.search(guard, &g_process.own_threads.ending);
}

// What a cgroup leaves: each time where it has a limit, and now and then where it had none.
void look_for_room(std::uint32_t turn) {
  if (!g_process.engine.lanes.opened()) {
    return;
  }
  const Headroom& headroom = g_process.engine.lanes.shared().pool.headroom();
  if (headroom.limit() != GroupLimit::kNone || turn % tuning::kTurnsALook == 0) {
    headroom.look_again();
  }
}

// The background thread is not there: its start is tried again after a while, each time twice as
// long.
void lose_background_thread() {
  g_process.background.starts.refused(tuning::kMaxWait);
  g_process.background.running = false;
}

// Notices that the program rests: its loops are left, and it hardly uses a processor. Then what the
// underlying allocator keeps goes back as well, once in each rest: that takes its locks, and what
// is used again is faulted again.
class Rest {
 public:
  // After each tick, and its answer. True once everything has been given back.
  bool reached(bool at_rest) {
    if (!at_rest) {
      looked_at_ = Nanos{0};
      trimmed_ = false;
    } else if (!trimmed_) {
      const Nanos now = os::nanoseconds();
      const Nanos used = os::processor_nanoseconds();
      trimmed_ = looked_at_ != Nanos{0} && (used - used_) * tuning::kRestShare <= now - looked_at_;
      looked_at_ = now;
      used_ = used;
      if (trimmed_) {
        g_process.engine.lanes.shared().trim_next();
      }
    }
    return trimmed_;
  }

 private:
  Nanos looked_at_;  // 0: not yet in this rest
  Nanos used_;       // of processors by then
  bool trimmed_ = false;
};

// Something but memory is still to be done, or will be.
bool is_needed() {
  const Engine& engine = g_process.engine;
  return (engine.lanes.shared().reports && anyone_serves()) || engine.plans.wants_search() ||
         g_process.background.searching.running;
}

// From now on a lane that keeps much memory starts the next background thread. False if one did
// just before, and found this one running: by the end of the rest each processor has told what it
// has counted before it could see the store.
bool may_end() {
  g_process.background.running = false;
  (void)sleep_own_thread(os::kMillisecond);
  return !g_process.engine.lanes.shared().keeps_much() ||
         g_process.background.running.exchange(true);
}

// One life of the background thread.
struct Life {
  os::Apart apart;
  std::uint32_t turn = 0;
  Rest rest;
  bool refused = false;  // the system does not let it rest: it would take a processor for itself
};

// By the thread itself, which has the program's descriptors, as what it starts has.
void start_tasks(void*, const RecursionGuard& guard) {
  if (g_process.engine.plans.wants_search()) {
    start_task(g_process.background.searching, search, guard);
  }
  begin_due_reports(os::nanoseconds(), guard);
}

// A second, or less: true once the program is gone.
bool pass_a_second(Life& life) {
  GiveBack& give_back = g_process.engine.give_back;
  const Nanos end = os::nanoseconds() + os::kSecond;
  do {
    const Nanos step =
        g_process.own_threads.first_has_left ? tuning::kIdle : give_back.until_look();
    life.refused = !sleep_own_thread(step);
    give_back.look_for_pause(os::nanoseconds());
    if (program_is_gone()) {
      return true;
    }
  } while (!life.refused && os::nanoseconds() < end);
  return false;
}

// Ends where nothing is left to be done until calls come.
void live(void* argument, const RecursionGuard&) {
  auto& life = *static_cast<Life*>(argument);
  note_own_task();
  do {
    ++life.turn;
    // The call that has asked for this thread may be a free of many: not at once.
    if (life.turn != 1 && life.rest.reached(g_process.engine.give_back.tick(os::nanoseconds())) &&
        !is_needed() && may_end()) {
      return;
    }
    keep_status_page();
    if (!os::confined()) {
      look_for_room(life.turn);
      life.apart.step_back(start_tasks, nullptr);
    }
  } while (!pass_a_second(life) && !life.refused);
  lose_background_thread();
}

void look_each_second(void*) {
  Life life;
  life.apart.run(live, &life);
}

// The program's first extra thread needs more memory to be worth it.
bool is_worth_it() {
  const Shared& shared = g_process.engine.lanes.shared();
  return (g_process.background.single_threaded != nullptr && !alone()) || shared.reports ||
         std::max(shared.pool.held().dirty_bytes(), shared.slabs.bytes.load()) >= 2 * tuning::kKept;
}

}  // namespace

void prepare_background_thread() {
  g_process.background.single_threaded =
      static_cast<const char*>(dlsym(RTLD_DEFAULT, "__libc_single_threaded"));
}

// Before glibc 2.32 it is not known.
bool alone() {
  return g_process.background.single_threaded != nullptr &&
         *g_process.background.single_threaded != 0;
}

void start_background_thread(const RecursionGuard& guard) {
  // Creating a thread takes another of the dynamic linker's locks: not in a callback under the
  // first. A later start of serving will do.
  if (g_process.background.running.load(std::memory_order_relaxed) || in_loader() ||
      g_process.bare_child || !is_worth_it() || g_process.background.starts.waits() ||
      g_process.background.running.exchange(true)) {
    return;
  }
  const os::KeepErrno keep_errno;
  // First of all: what follows may be calls that the program has taken from itself.
  if (os::confined() || !start_thread(look_each_second, nullptr, guard)) {
    lose_background_thread();
  }
}

}  // namespace memo
