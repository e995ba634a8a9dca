// Process 1 of a container, and children of it that are process 1 of a container of their own: the
// number is the same, but only the first writes a report, however the other came to be. Needs root.
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>

#include "support.h"

static char report[64];

static void no_report(void) {
  CHECK(access(report, F_OK) != 0 && errno == ENOENT);
}

static void end_child(pid_t child) {
  int status = 0;
  CHECK(child > 0 && waitpid(child, &status, __WALL) == child);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
}

static int end_at_once(void* unused) {
  (void)unused;
  if (getpid() != 1)
    _exit(1);
  _exit(7);
}

// A child with memory of its own, by the bare system call.
static void child_with_handlers_skipped(void) {
  const pid_t child = (pid_t)syscall(SYS_clone, (long)(CLONE_NEWPID | SIGCHLD), 0L, 0L, 0L, 0L);
  if (child == 0) {
    learn_steps();
    end_at_once(NULL);
  }
  end_child(child);
  no_report();
}

// By fork(), as process 1 of the name space that was made for children.
static void forked_child(void) {
  CHECK(unshare(CLONE_NEWPID) == 0);
  const pid_t child = fork();
  if (child == 0)
    end_at_once(NULL);
  end_child(child);
  no_report();
}

// A child in its parent's memory, which waits for it.
static void child_in_shared_memory(void) {
  static char stack[1 << 16] __attribute__((aligned(64)));
  end_child(clone(end_at_once, stack + sizeof stack,
                  CLONE_NEWPID | CLONE_VM | CLONE_VFORK | SIGCHLD, NULL));
  no_report();
}

// Started again as process 1, with a report to write.
static int be_process_1(void) {
  snprintf(report, sizeof report, "%s", getenv("REPORT"));
  if (getpid() != 1)
    return 1;
  child_in_shared_memory();
  child_with_handlers_skipped();
  forked_child();
  return 7;
}

int main(int argc, char** argv) {
  end_after(60);
  if (argc == 2)
    return be_process_1();
  (void)argv;
  snprintf(report, sizeof report, "/tmp/name_spaces.%d", (int)getpid());
  unlink(report);
  CHECK(setenv("REPORT", report, 1) == 0);
  if (memomalloc_version && getenv("MEMOMALLOC_DISABLE") == NULL)
    CHECK(setenv("MEMOMALLOC_STATS_FILE", report, 1) == 0);
  const pid_t child = (pid_t)syscall(SYS_clone, (long)(CLONE_NEWPID | SIGCHLD), 0L, 0L, 0L, 0L);
  if (child < 0) {
    printf("skipped: needs the right to make name spaces\n");
    return 0;
  }
  if (child == 0) {
    execl("/proc/self/exe", argv[0], "again", (char*)NULL);
    _exit(127);
  }
  end_child(child);
  // Process 1 itself has reported, where there is anything to report.
  CHECK((access(report, F_OK) == 0) == (getenv("MEMOMALLOC_STATS_FILE") != NULL));
  unlink(report);
  printf("children of process 1 ok\n");
  return 0;
}
