#include "preload/background_thread.h"

#include <dlfcn.h>
#include <algorithm>
#include <atomic>

#include "preload/background_task.h"
#include "preload/process.h"
#include "preload/reports.h"
#include "preload/status.h"
#include "src/base/apart.h"
#include "src/base/backoff.h"
#include "src/base/keep_errno.h"
#include "src/base/os.h"
#include "src/base/tuning.h"

namespace memo {
namespace {

// One search. It gives the processor up to whoever wants it, and an ordinary user's thread cannot
// take that back: the background thread, who holds locks, must not search itself.
void search(const RecursionGuard& guard) {
  g_process.engine.plans.search(guard, &own_threads_end());
}

void look_again(const RecursionGuard&) {
  g_process.engine.lanes.shared().pool.headroom().look_again();
}

constinit std::atomic<bool> running{false};
constinit BackgroundTask searching{search};
constinit BackgroundTask looking{look_again};
constinit Backoff starts;
// The C library's own note; none before glibc 2.32.
constinit const char* single_threaded = nullptr;

// What a cgroup leaves: each time where it has a limit, and now and then where it had none.
void look_for_room(std::uint32_t turn) {
  if (!g_process.engine.lanes.opened() ||
      (g_process.engine.lanes.shared().pool.headroom().limit() == GroupLimit::kNone &&
       turn % tuning::kTurnsALook != 0)) {
    return;
  }
  looking.start();
}

// The background thread is not there: its start is tried again after a while, each time twice as long.
void lose_background_thread() {
  starts.refused(tuning::kMaxOccasions);
  running = false;
}

// Notices that the program rests: its loops are left, and it hardly uses a processor. Then what the underlying allocator keeps
// goes back as well, once in each rest: that takes its locks, and what is used again is faulted again.
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
      if (trimmed_ && g_process.engine.lanes.shared().host.trim_next != nullptr) {
        g_process.engine.lanes.shared().host.trim_next();
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
         searching.runs();
}

// Who keeps much from now on starts the next background thread. False if somebody kept much just before, and found this one.
bool may_end() {
  running = false;
  return !g_process.engine.lanes.shared().keeps_much() || running.exchange(true);
}

// One life of the background thread.
struct Life {
  os::Apart apart;
  std::uint32_t turn = 0;
  Rest rest;
  bool refused = false;  // the system does not let it rest: it would take a processor for itself
};

// By the thread itself, which has the program's descriptors, as what it starts has.
void start_tasks(void* argument) {
  look_for_room(static_cast<const Life*>(argument)->turn);
  if (g_process.engine.plans.wants_search()) {
    searching.start();
  }
  begin_due_reports(os::nanoseconds());
}

// A second, or less: true once the program is gone.
bool pass_a_second(Life& life) {
  const Nanos end = os::nanoseconds() + os::kSecond;
  do {
    const Nanos step = first_thread_has_left() ? tuning::kLastLook : os::kSecond;
    life.refused = !sleep_own_thread(step);
    if (program_is_gone()) {
      return true;
    }
  } while (!life.refused && os::nanoseconds() < end);
  return false;
}

// Ends where nothing is left to be done until calls come.
void live(void* argument) {
  auto& life = *static_cast<Life*>(argument);
  note_own_task();
  const RecursionGuard guard;  // for the whole life: its allocations are the library's own
  do {
    ++life.turn;
    // The call that has asked for this thread may be a free of many: not at once.
    if (life.turn != 1 && life.rest.reached(g_process.engine.upkeep.tick(os::nanoseconds())) &&
        !is_needed() && may_end()) {
      return;
    }
    keep_status_page();
    if (!os::confined()) {
      life.apart.step_back(start_tasks, &life);
    }
  } while (!pass_a_second(life) && !life.refused);
  lose_background_thread();
}

void keep(void*) {
  Life life;
  life.apart.run(live, &life);
}

// The first thread of all is worth less than one more.
bool is_worth_it() {
  const Shared& shared = g_process.engine.lanes.shared();
  return (single_threaded != nullptr && !alone()) || shared.reports ||
         std::max(shared.pool.held().dirty_bytes(), shared.slabs.bytes.load()) >=
             tuning::kKeptAlone;
}

}  // namespace

void prepare_background_thread() {
  single_threaded = static_cast<const char*>(dlsym(RTLD_DEFAULT, "__libc_single_threaded"));
}

// Before glibc 2.32 nobody tells.
bool alone() {
  return single_threaded != nullptr && *single_threaded != 0;
}

void start_background_thread(const RecursionGuard&) {
  // Creating a thread takes another of the dynamic linker's locks: not in a callback under the
  // first. A later start of serving will do.
  if (running.load(std::memory_order_relaxed) || in_loader() || g_process.bare_child ||
      !is_worth_it() || starts.waits() || running.exchange(true)) {
    return;
  }
  const os::KeepErrno keep_errno;
  // First of all: what follows may be calls that the program has taken from itself.
  if (os::confined() || !start_thread(keep, nullptr)) {
    lose_background_thread();
  }
}

bool background_thread_runs() {
  return running;
}

void forget_background_thread() {
  forget_own_threads();
  running = false;
  searching.forget();
  looking.forget();
  starts.restart();
}

}  // namespace memo
