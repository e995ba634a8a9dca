// What the library writes may fail, but never ends the program by a signal: its messages where
// nobody reads stderr (SIGPIPE), its files where none may grow (SIGXFSZ). A child, which asks for
// messages and a file, tells by how it ends; and a SIGPIPE of the program's own that waits is not
// taken away.
#include <signal.h>
#include <sys/resource.h>

#include "support.h"

static void run(const char* role) {
  int ends[2];
  const int before = dup(STDERR_FILENO);
  CHECK(before >= 0 && pipe(ends) == 0);
  CHECK(dup2(ends[1], STDERR_FILENO) == STDERR_FILENO);
  close(ends[0]);
  close(ends[1]);
  const int status = run_again(role, NULL, NULL);
  dup2(before, STDERR_FILENO);
  close(before);
  printf("%s: exit code %d, signal %d\n", role, WIFEXITED(status) ? WEXITSTATUS(status) : -1,
         WIFSIGNALED(status) ? WTERMSIG(status) : 0);
}

static int child(const char* role) {
  const int limited = strcmp(role, "no files") == 0;
  const int waiting = strcmp(role, "waiting signal") == 0;
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGPIPE);
  if (limited) {
    const struct rlimit none = {0, 0};
    setrlimit(RLIMIT_FSIZE, &none);
  }
  if (waiting) {
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    pthread_kill(pthread_self(), SIGPIPE);
  }
  learn_steps();
  void* blocks[kStepCount];
  take_steps(blocks);
  free_steps(blocks);
  if (memomalloc_release)
    memomalloc_release();
  learn_steps();
  sigset_t pending;
  sigpending(&pending);
  if (sigismember(&pending, SIGPIPE) != waiting)
    return 3;
  check_served();
  return 0;
}

int main(int count, char** words) {
  if (count > 1)
    return child(words[1]);
  setenv("MEMOMALLOC_STATS_FILE", "/tmp/unread_output.%p.json", 1);
  char plans[64];
  snprintf(plans, sizeof plans, "/tmp/unread_output.%d.plans", (int)getpid());
  setenv("MEMOMALLOC_PLANS", plans, 1);
  run("no files");
  rmdir(plans);  // nothing can have been written there
  unsetenv("MEMOMALLOC_STATS_FILE");
  unsetenv("MEMOMALLOC_PLANS");
  setenv("MEMOMALLOC_VERBOSE", "3", 1);
  setenv("MEMOMALLOC_STATS", "1", 1);
  setenv("MEMOMALLOC_NO_SUCH", "a line is said of this", 1);
  run("no reader");
  run("waiting signal");
  return 0;
}
