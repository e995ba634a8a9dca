#include "preload/reports.h"

#include <dlfcn.h>
#include <sys/stat.h>
#include <atomic>
#include <cerrno>
#include <ctime>
#include <string_view>

#include "preload/background_task.h"
#include "preload/plan_exchange.h"
#include "preload/process.h"
#include "preload/reporter.h"
#include "preload/statistics.h"
#include "preload/status.h"
#include "src/base/interrupts.h"
#include "src/base/keep_errno.h"
#include "src/base/message.h"
#include "src/base/os.h"
#include "src/base/own_stack.h"
#include "src/base/tuning.h"

namespace memo {
namespace {

// True if the file at `path` was written while this process ran, and this process has served
// nothing: a shell or a timer around the program must not put its own report over the program's.
// Terminals and pipes lose nothing, and are written by many.
bool another_wrote(const char* path, const Snapshot& now) {
  struct stat written{};
  if (now.faults_avoided() != 0 || stat(path, &written) != 0 || !S_ISREG(written.st_mode)) {
    return false;
  }
  const Nanos at = os::nanoseconds_of(written.st_mtim);
  return at != g_process.reports.own_written && at > g_process.reports.started;
}

// A forked child writes statistics only where it has a file of its own: its parent's stays.
bool wants_stats_file() {
  const std::string_view path = g_process.options.STATS_FILE.view();
  return !path.empty() && (!g_process.engine.forks.forked() || names_process(path));
}

void write_stats(bool last, const RecursionGuard& guard) {
  const option::Path& file = g_process.options.STATS_FILE;
  const std::uint64_t calls = large_calls();
  char path[4096];
  const bool fits = expand_path(file.view(), path, sizeof path);
  if (fits && !last && is_written_once(path)) {
    g_process.reports.calls_written.store(calls, std::memory_order_relaxed);
    return;
  }
  errno = ENAMETOOLONG;
  Snapshot now;
  take(now);
  if (fits && another_wrote(path, now)) {
    return;
  }
  g_process.reports.calls_written.store(calls, std::memory_order_relaxed);
  g_process.reports.written_at.store(os::nanoseconds(), std::memory_order_relaxed);
  const bool done = fits && write_stats_file(guard, path, now);
  if (done) {
    g_process.reports.own_written = FileMark::of(path).written;
  }
  if (!done && !g_process.reports.complained && (last || fits)) {
    g_process.reports.complained = true;
    complain("statistics", fits ? path : file.value, "STATS_FILE");
  }
}

void write_trace_file(const RecursionGuard& guard) {
  const option::Path& file = g_process.options.TRACE_FILE;
  const Engine& engine = g_process.engine;
  // The recorders of a forked child's other lanes hold what its parent's threads did.
  if (file.empty() || !engine.lanes.opened() || engine.forks.forked()) {
    return;
  }
  const Recorder* recorders[tuning::kMaxLanes];
  for (std::uint32_t i = 0; i < engine.lanes.count(); ++i) {
    recorders[i] = &engine.lanes.at(i).recorder();
  }
  Snapshot now;
  take(now);
  char path[4096];
  const bool fits = expand_path(file.view(), path, sizeof path);
  if (fits && another_wrote(path, now)) {
    return;
  }
  if (!fits || !write_trace(guard, path, {recorders, engine.lanes.count()})) {
    complain("trace", file.value, "TRACE_FILE");
    return;
  }
  if (!write_sites(guard, path)) {
    complain("names of the stacks next to the trace", path, "TRACE_FILE");
  }
}

// The file that small blocks come from, without its folders.
std::string_view underlying_allocator() {
  Dl_info found{};
  if (dladdr(reinterpret_cast<const void*>(g_process.next.malloc), &found) == 0) {
    return "another allocator";
  }
  return last_part(found.dli_fname);
}

void print_exit_lines() {
  Snapshot now;
  take(now);
  if (now.observes != 0) {
    Line() << "observed, nothing was served: slabs of " << now.slab_bytes
           << " bytes would have spared " << now.observed_faults
           << " page faults; the program held " << now.held_peak_bytes
           << " bytes in large blocks at once";
  }
  const Counters& c = now.counters;
  const std::uint64_t large = c.large_bytes.get();
  const auto share = [large](const Counter& part) {
    return large == 0 ? 0 : part.get() * 100 / large;
  };
  Line() << "exit: " << now.phase << ", " << c.iterations.get() << " iterations, of " << large
         << " large bytes " << share(c.planned_bytes) << " % planned in a slab, "
         << share(c.at_hand_bytes) << " % reused from the pool, " << share(c.other_bytes)
         << " % other, slab " << now.slab_bytes << " of bound " << now.lower_bound_bytes
         << " bytes, " << now.faults_avoided() << " page faults avoided at most; smaller blocks by "
         << underlying_allocator();
  if (c.symbolic_calls.get() != 0) {
    Line() << "plan for changing shapes: " << c.symbolic_calls.get() << " calls, laid out "
           << c.shapes.get() << " times";
  }
  if (g_process.options.VERBOSE >= 2) {
    print_fallbacks(now);
  }
}

bool reports_are_due(Nanos now) {
  return cache_lacks_plans() || lacks_status_page() ||
         (wants_stats_file() && now >= g_process.reports.written_at.load() + tuning::kAtRest &&
          large_calls() != g_process.reports.calls_written);
}

void write_due(const RecursionGuard& guard) {
  if (g_process.reports.ended) {
    return;
  }
  if (wants_stats_file()) {
    write_stats(false, guard);
  }
  save_to_cache(guard, false);
  open_status_page(guard);
}

// No report is begun any more, and one that is being written has been, or is given up: before the
// process writes its last ones.
void end_reports() {
  g_process.reports.ended = true;
  for (int i = 0; g_process.reports.writing.running && i < last_moments() && os::rest(); ++i) {
  }
}

}  // namespace

void note_start_of_reports() {
  g_process.reports.started = file_time();
}

void begin_due_reports(Nanos now, const RecursionGuard& guard) {
  if (reports_are_due(now)) {
    start_task(g_process.reports.writing, write_due, guard);
  }
}

bool anyone_serves() {
  const Lanes& lanes = g_process.engine.lanes;
  bool serves = false;
  for (std::uint32_t i = 0; i < lanes.count(); ++i) {
    serves = serves || lanes.at(i).phase() == Phase::kServing;
  }
  return serves;
}

void report_serving(const RecursionGuard& guard) {
  if (!anyone_serves() || !wants_stats_file() || !is_reporter()) {
    return;
  }
  const NoInterrupts quiet;
  const os::NoCancellation whole;
  write_stats(false, guard);
}

namespace {

void write_last_reports() {
  end_reports();
  close_status_page();
  const os::NoCancellation whole;
  const os::KeepErrno keep_errno;
  const RecursionGuard guard;
  const Options& options = g_process.options;
  if (wants_stats_file()) {
    write_stats(true, guard);
  }
  write_trace_file(guard);
  save_to_cache(guard, true);
  if (options.STATS != 0) {
    Snapshot now;
    take(now);
    print_stats(now);
  }
  if (options.VERBOSE >= 1 && g_process.engine.lanes.opened()) {
    print_exit_lines();
  }
}

}  // namespace

// The first thread's stack may be small (ulimit -s).
void report() {
  if (g_process.reports.reported || !is_reporter()) {
    return;
  }
  g_process.reports.reported = true;
  const NoInterrupts whole;
  if (!os::run_on_own_stack([] { write_last_reports(); })) {
    write_last_reports();
  }
}

}  // namespace memo
