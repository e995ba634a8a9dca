// The one global, and what happens to it when the process starts, forks, loses a thread or ends.
// Cold but for the first lines; no lock.
#include "preload/lifecycle.h"

#include <pthread.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <string_view>

#include "preload/background_task.h"
#include "preload/background_thread.h"
#include "preload/observe.h"
#include "preload/operators.h"
#include "preload/plan_exchange.h"
#include "preload/preceding.h"
#include "preload/process.h"
#include "preload/reporter.h"
#include "preload/reports.h"
#include "preload/shim.h"
#include "preload/statistics.h"
#include "preload/status.h"
#include "preload/system_names.h"
#include "preload/thread_end.h"
#include "src/base/descriptors.h"
#include "src/base/interrupts.h"
#include "src/base/keep_errno.h"
#include "src/base/message.h"
#include "src/base/os.h"
#include "src/base/system_call.h"
#include "src/base/tuning.h"
#include "src/io/export.h"
#include "src/io/plan_cache.h"

namespace memo {

constinit Process g_process;

namespace {

void show_large_block() {
  const os::KeepErrno keep_errno;
  if (g_process.next.trims()) {
    g_process.next.free(g_process.next.malloc(tuning::kShownBytes));
  }
}

void opened(const RecursionGuard& guard) {
  // Where it is observed, the underlying allocator is left as it is, and needs no slab made ready.
  if (!g_process.observes) {
    show_large_block();
    open_cache(guard);
  }
  open_status_page(guard);
}

// A frame that goes on in a forked child has the parent's page.
void phase_changed(const RecursionGuard& guard) {
  if (!g_process.engine.forks.here()) {
    return;
  }
  shim::heed_limit();
  write_status_page();
  if (!g_process.background.running) {
    report_serving(guard);
  }
}

void thread_ends(void*) {
  leave_lane_thread();
  g_process.engine.thread_ended();
  end_own_threads_with_last();
}

void thread_begins() {
  tell_at_thread_end();
  g_process.own_threads.ending = false;  // the program goes on
  note_lane_thread();
}

// In a process with threads, be it the library's, glibc has its allocator's locks from here on
// until the parent's and the child's handlers: one of a signal that allocates in between would wait
// for its own thread.
void before_fork() {
  hold_signals();
  g_process.engine.before_fork();
}
void after_fork_in_parent() {
  g_process.engine.forks.after_in_parent();
  release_signals();
}
// At the child's first call that comes to the engine, or at once. Fork() has had all locks of the C
// library.
void forked(bool told) {
  g_process.bare_child = !told && !alone();
  if (!told) {
    name_forked_reporter();
  }
#define FEATURE(name, State) g_process.name.forked();
#include "preload/features.def"
#undef FEATURE
}
void after_fork_in_child() {
  name_forked_reporter();  // now: the child may be about to give system calls up
  g_process.engine.forks.after_in_child(g_process.observes);
  release_signals();
}

[[gnu::constructor]] void start() {
  if (g_process.is_auditor) {
    return;
  }
  const RecursionGuard guard;
  Process& process = g_process;
  shim::find_next_allocator();  // before there is a second thread
  find_system_names();
  note_start_of_reports();
  os::note_stderr();
  os::start();
  Before before = Before::kNothing;
#ifndef MEMO_NAME  // under other names nothing is exported
  open_operators();
  hide_missing_peers(process.next);
  before = find_preceding();
#endif
  // In secure mode (setuid) the environment is an attacker's: the defaults hold.
  if (getauxval(AT_SECURE) == 0) {
    read_options(__environ, process.options, Plans::has_planner);
  }
  const bool meant = before != Before::kCopy && runs_in(process.options.EXE.view());
  const bool wanted = process.options.DISABLE == 0 && meant && before == Before::kNothing;
  // Where observing was asked for and fails, nothing is served.
  process.observes = wanted && process.options.OBSERVE != 0 && start_observing();
  const bool on = wanted && (process.observes || process.options.OBSERVE == 0);
  bool reports = false;
  if (meant) {  // others stay silent, whatever is asked for
    name_cache(process.options);
    note_status_folder();
    reports = become_reporter();
  }
  if (on || reports) {
    process.engine.forks.mark_process();  // a child may be made before there is a lane
  }
  if (on) {
    if (!process.options.TRACE_FILE.empty()) {
      process.early = tuning::kEarlyCalls;  // a trace leaves no large call out
    }
    prepare_background_thread();
    load_unwinder(!process.options.TRACE_FILE.empty());
    prepare_thread_end(thread_ends);
    // The first thread, also if it allocates nothing: the process may go on without it.
    tell_at_thread_end();
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
    process.engine.configure(process.options,
                             {.trim_next = process.observes ? nullptr : shim::trim_next,
                              .new_thread = thread_begins,
                              .phase_changed = phase_changed,
                              .opened = opened,
                              .outside = &process.catalogue,
                              .fetch = fetch_cached,
                              .start_background_thread = start_background_thread,
                              .forked = forked,
                              .alone = alone});
  }
  const std::uint64_t threshold = on ? process.options.THRESHOLD : UINT64_MAX;
  process.threshold = threshold != 0 ? threshold : 1;
  process.fast_below = process.observes ? 0 : process.threshold;
  shim::open_fast_paths();
  if (on && process.options.VERBOSE >= 1) {
    Line() << MEMO_VERSION << ": watching blocks of at least " << process.threshold << " bytes";
  }
  if (before == Before::kAllocator && (reports || process.options.VERBOSE >= 1)) {
    Line()
        << "nothing is served: another allocator stands before this library, and frees what malloc "
           "gives; preload this library before it (the executable's own cannot be served)";
  }
}

[[gnu::destructor]] void end() {
  report();
}

}  // namespace

// Before the C library of the auditors' name space has started: by system calls alone.
unsigned load_as_auditor(unsigned version) {
  constexpr std::string_view kText =
      "memomalloc: LD_AUDIT is for auditors of the dynamic linker, and this library is none: name "
      "it in LD_PRELOAD\n";
  g_process.is_auditor = true;
  os::system_call(SYS_write, STDERR_FILENO, kText.data(), kText.size());
  return version;
}

void exit_now(int code) {
  shim::find_next_allocator();
  report();
  g_process.next._exit(code);
  __builtin_unreachable();
}

std::size_t stats_json(char* buffer, std::size_t size) {
  if (t_state.inside == 0) {
    g_process.engine.forks.noticed();
  }
  const RecursionGuard guard;
  Snapshot now;
  take(now);
  return format_json(now, buffer, size);
}

void release() {
  const RecursionGuard guard;
  if (g_process.engine.lanes.opened()) {
    g_process.engine.give_back.all();
    g_process.engine.lanes.shared().trim_next();
  }
}

}  // namespace memo
