#include "preload/reporter.h"

#include <unistd.h>
#include <cerrno>
#include <cstring>

#include "preload/process.h"
#include "src/base/keep_errno.h"
#include "src/base/message.h"
#include "src/io/status_page.h"

namespace memo {

bool become_reporter() {
  const Options& options = g_process.options;
  if (options.STATS == 0 && options.VERBOSE == 0 && options.STATS_FILE.empty() &&
      options.TRACE_FILE.empty() && options.PLANS.empty() && options.STATUS == 0) {
    return false;
  }
  g_process.reporter.number = getpid();
  g_process.reporter.space_of_number = number_space();
  return true;
}

void name_forked_reporter() {
  state::Reporter& reporter = g_process.reporter;
  if (reporter.number != 0) {
    reporter.number = getpid();
    reporter.space_of_number = 0;
    say_process_in_lines();
  }
}

bool is_reporter() {
  if (g_process.reporter.number == 0) {
    return false;  // without a system call: a filter may kill the process for one
  }
  const Engine& engine = g_process.engine;
  if (!engine.forks.here() || getpid() != g_process.reporter.number ||
      (engine.forks.forked() && large_calls() == 0)) {
    return false;
  }
  if (g_process.reporter.space_of_number == 0) {
    return true;
  }
  const os::KeepErrno keep_errno;
  const std::uint64_t space = number_space();
  return space == g_process.reporter.space_of_number || space == 0;
}

unsigned long long large_calls() {
  const Lanes& lanes = g_process.engine.lanes;
  unsigned long long sum = lanes.passed_on.large_allocations.get();
  for (std::uint32_t i = 0; i < lanes.count(); ++i) {
    sum += lanes.at(i).counters.large_allocations.get();
  }
  return sum;
}

void complain(const char* what, const char* path, const char* variable) {
  Line() << "cannot write the " << what << " to '" << path << "': " << std::strerror(errno)
         << "; set MEMOMALLOC_" << variable << " to another path";
}

}  // namespace memo
