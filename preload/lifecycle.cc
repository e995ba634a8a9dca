// The one global, and what happens to it when the process starts, forks, loses a thread or ends.
// Cold but for the first lines; no lock.
#include "preload/lifecycle.h"

#include <pthread.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <cerrno>

#include "preload/keeper.h"
#include "preload/plans.h"
#include "preload/process.h"
#include "preload/reporter.h"
#include "preload/shim.h"
#include "src/base/interrupts.h"
#include "src/base/message.h"
#include "src/base/os.h"
#include "src/base/tuning.h"
#include "src/io/export.h"

namespace memo {

constinit Process g_process;

namespace {

constinit pthread_key_t thread_key = 0;
constinit bool have_thread_key = false;
constinit bool reported = false;
constinit timespec started = {};

void take(Snapshot& now) {
  const Engine& engine = g_process.engine;
  now.counters.add(engine.passed_on());
  auto best = Phase::kIdle;
  const auto rank = [](Phase phase) {
    switch (phase) {
      case Phase::kServing:
        return 3;
      case Phase::kReady:
      case Phase::kLearning:
        return 2;
      case Phase::kPooling:
        return 1;
      case Phase::kIdle:
        break;
    }
    return 0;
  };
  for (std::uint32_t i = 0; i < engine.lane_count(); ++i) {
    const Lane& lane = engine.lane(i);
    now.counters.add(lane.counters);
    const Served served = lane.served();
    now.served_allocations += served.allocations;
    now.served_bytes += served.bytes;
    now.since_large_bytes += served.large_bytes;
    now.slab_bytes += lane.tallest();
    now.lower_bound_bytes += lane.bound();
    now.plan_seconds += lane.plan_seconds();
    if (rank(lane.phase()) > rank(best)) {
      best = lane.phase();
    }
  }
  now.threads = engine.lane_count();
  now.phase = g_process.options.DISABLE != 0 ? "disabled" : name_of(best);
}

void show_large_block() {
  const int saved = errno;
  if (g_process.next.malloc_trim != nullptr) {
    g_process.next.free(g_process.next.malloc(tuning::kShownBytes));
  }
  errno = saved;
}

// True if the file at `path` was written while this process ran, and this process has served
// nothing: a shell or a timer around the program must not put its own report over the program's.
// Terminals and pipes lose nothing, and are written by many.
bool another_wrote(const char* path, const Snapshot& now) {
  struct stat written{};
  return now.served_allocations == 0 && stat(path, &written) == 0 && S_ISREG(written.st_mode) &&
         (written.st_mtim.tv_sec > started.tv_sec ||
          (written.st_mtim.tv_sec == started.tv_sec && written.st_mtim.tv_nsec > started.tv_nsec));
}

void write_stats(const RecursionGuard& guard, bool last) {
  const option::Path& file = g_process.options.STATS_FILE;
  if (file.empty() || !is_reporter()) {
    return;
  }
  char path[4096];
  if (!expand_path(file.view(), path, sizeof path)) {
    errno = ENAMETOOLONG;
    complain("statistics", file.value, "STATS_FILE");
    return;
  }
  Snapshot now;
  take(now);
  if (another_wrote(path, now)) {
    return;
  }
  if (!write_stats_file(guard, path, now) && last) {
    complain("statistics", path, "STATS_FILE");
  }
}

void write_trace_file(const RecursionGuard& guard) {
  const option::Path& file = g_process.options.TRACE_FILE;
  const Engine& engine = g_process.engine;
  if (file.empty() || !engine.opened()) {
    return;
  }
  const Recorder* recorders[tuning::kMaxLanes];
  for (std::uint32_t i = 0; i < engine.lane_count(); ++i) {
    recorders[i] = &engine.lane(i).recorder();
  }
  Snapshot now;
  take(now);
  char path[4096];
  const bool fits = expand_path(file.view(), path, sizeof path);
  if (fits && another_wrote(path, now)) {
    return;
  }
  if (!fits || !write_trace(guard, path, {recorders, engine.lane_count()})) {
    complain("trace", file.value, "TRACE_FILE");
    return;
  }
  if (!write_sites(guard, path)) {
    complain("names of the stacks beside the trace", path, "TRACE_FILE");
  }
}

void opened(const RecursionGuard& guard) {
  show_large_block();
  load_plan_file(guard);
}

void report() {
  if (reported || !is_reporter()) {
    return;
  }
  reported = true;
  const os::NoCancellation whole;
  const int saved = errno;
  const RecursionGuard guard;
  const Options& options = g_process.options;
  write_stats(guard, true);
  write_trace_file(guard);
  save_plan_file(guard);
  if (options.STATS != 0) {
    Snapshot now;
    take(now);
    print_stats(now);
  }
  if (options.VERBOSE >= 1 && g_process.engine.opened()) {
    Snapshot now;
    take(now);
    const Counters& c = now.counters;
    const std::uint64_t large = c.large_bytes.get();
    const auto share = [large](const Counter& part) {
      return large == 0 ? 0 : part.get() * 100 / large;
    };
    Line() << "exit: " << now.phase << ", " << c.iterations.get() << " iterations, of " << large
           << " large bytes " << share(c.planned_bytes) << " % planned in a slab, "
           << share(c.at_hand_bytes) << " % at hand in the pool, " << share(c.other_bytes)
           << " % neither, slab " << now.slab_bytes << " of bound " << now.lower_bound_bytes
           << " bytes, " << (c.planned_bytes.get() + c.at_hand_bytes.get()) / 4096
           << " page faults avoided at most";
    if (now.counters.symbolic_calls.get() != 0) {
      Line() << "plan for changing shapes: " << now.counters.symbolic_calls.get()
             << " calls, laid out " << now.counters.shapes.get() << " times";
    }
    if (options.VERBOSE >= 2) {
      print_fallbacks(now);
    }
  }
  errno = saved;
}

void phase_changed(const RecursionGuard& guard) {
  shim::heed_limit();
  if (g_process.options.STATS_FILE.empty()) {
    return;
  }
  const NoInterrupts quiet;
  const os::NoCancellation whole;
  write_stats(guard, false);
}

void trim_next() {
  const NoInterrupts quiet;
  const os::NoCancellation whole;  // glibc's first call asks for random numbers
  if (g_process.next.malloc_trim != nullptr) {
    g_process.next.malloc_trim(0);
  }
}

void thread_ends(void*) {
  g_process.engine.thread_ended();
}

// The key's value only has to be non-null for thread_ends to be called.
void thread_begins() {
  if (have_thread_key) {
    pthread_setspecific(thread_key, &g_process);
  }
}

void before_fork() {
  g_process.engine.before_fork();
}
void after_fork_in_parent() {
  g_process.engine.after_fork_in_parent();
}
void after_fork_in_child() {
  forget_keeper();
  g_process.engine.after_fork_in_child();
}

[[gnu::constructor]] void start() {
  const RecursionGuard guard;
  Process& process = g_process;
  clock_gettime(CLOCK_REALTIME_COARSE, &started);
  os::start();
  shim::find_next_allocator();  // before there is a second thread
#ifndef MEMO_NAME               // under other names nothing is exported
  hide_missing_peers(process.next);
#endif
  // In secure mode (setuid) the environment is an attacker's: the defaults hold.
  if (getauxval(AT_SECURE) == 0) {
    read_options(environ, process.options);
  }
  const bool meant = runs_in(process.options.EXE.view());
  reported = !meant;  // others stay silent, whatever is asked for
  const bool on = process.options.DISABLE == 0 && meant;
  if (meant) {
    become_reporter();
  }
  if (on) {
    if (!process.options.TRACE_FILE.empty()) {
      shim::watch_from_the_first_call();
    }
    load_unwinder(!process.options.TRACE_FILE.empty());
    have_thread_key = pthread_key_create(&thread_key, thread_ends) == 0;
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
    process.engine.configure(process.options, {.trim_next = trim_next,
                                               .new_thread = thread_begins,
                                               .phase_changed = phase_changed,
                                               .opened = opened,
                                               .keep = start_keeper,
                                               .forked = forget_keeper});
  }
  const std::uint64_t threshold = on ? process.options.THRESHOLD : UINT64_MAX;
  process.threshold = process.fast_below = threshold != 0 ? threshold : 1;
  shim::open_fast_paths();
  if (on && process.options.VERBOSE >= 1) {
    Line() << MEMO_VERSION << ": watching blocks of at least " << process.threshold << " bytes";
  }
}

[[gnu::destructor]] void end() {
  report();
}

}  // namespace

void exit_now(int code) {
  shim::find_next_allocator();
  report();
  g_process.next._exit(code);
  __builtin_unreachable();
}

std::size_t stats_json(char* buffer, std::size_t size) {
  const RecursionGuard guard;
  Snapshot now;
  take(now);
  return format_json(now, buffer, size);
}

void release() {
  const RecursionGuard guard;
  if (g_process.engine.opened()) {
    g_process.engine.give_back();
    trim_next();
  }
}

}  // namespace memo
