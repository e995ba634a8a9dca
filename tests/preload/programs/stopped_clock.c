// A clock that stands still, as libraries that pretend a time make it: planning, which happens in one of
// the program's own calls and takes all the time that it may have, has its end all the same.
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <time.h>

#include "support.h"

// In front of the C library's, for the library too.
int clock_gettime(clockid_t clock, struct timespec* now) {
  const long result = syscall(SYS_clock_gettime, clock, now);
  if (clock == CLOCK_MONOTONIC)
    *now = (struct timespec){.tv_sec = 1000};
  return (int)result;
}

static void work(void) {
  for (unsigned i = 0; i < 24; ++i)
    work_in_no_order((i / 8 + 1) * 7919);
  if (serving_expected())
    CHECK(counter("plans") > 0);
}

// While it plans a child gets no signal but the last one.
int main(void) {
  const pid_t child = fork();
  if (child == 0) {
    work();
    _exit(0);
  }
  ends_well_within(child, 50);
  printf("stopped clock ok\n");
  return 0;
}
