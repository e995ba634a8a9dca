#include "preload/reporter.h"

#include <sys/stat.h>
#include <unistd.h>
#include <cerrno>

#include "preload/process.h"

namespace memo {
namespace {

// The reporter's number, and the file behind its name space of such numbers.
constinit pid_t number = 0;
constinit ino_t space_of_number = 0;

// 0 where the system does not tell.
ino_t number_space() {
  struct stat space{};
  const int saved = errno;
  const bool told = stat("/proc/self/ns/pid", &space) == 0;
  errno = saved;
  return told ? space.st_ino : 0;
}

}  // namespace

void become_reporter() {
  const Options& options = g_process.options;
  if (options.STATS == 0 && options.VERBOSE == 0 && options.STATS_FILE.empty() &&
      options.TRACE_FILE.empty() && options.PLAN_FILE.empty()) {
    return;
  }
  number = getpid();
  space_of_number = number_space();
  g_process.engine.mark_process();
}

bool is_reporter() {
  if (g_process.engine.forked() || getpid() != number) {
    return false;
  }
  const ino_t space = number_space();
  return space == space_of_number || space == 0 || space_of_number == 0;
}

}  // namespace memo
