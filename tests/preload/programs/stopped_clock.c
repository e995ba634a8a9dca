// A clock that stands still, as libraries that pretend a time make it: planning, which happens in one of
// the program's own calls and takes all the time that it may have, has its end all the same.
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include "support.h"

// In front of the C library's, for the library too.
int clock_gettime(clockid_t clock, struct timespec* now) {
  const long result = syscall(SYS_clock_gettime, clock, now);
  if (clock == CLOCK_MONOTONIC)
    *now = (struct timespec){.tv_sec = 1000};
  return (int)result;
}

// Iterations of hundreds of blocks with lifetimes in no order.
static void work(void) {
  enum { kBlocks = 400, kAlive = 64 };
  for (unsigned seed = 1; seed <= 3; ++seed) {
    for (unsigned iteration = 0; iteration < 8; ++iteration) {
      void* alive[kAlive] = {0};
      unsigned random = seed * 7919;
      for (unsigned i = 0; i < kBlocks; ++i) {
        random = random * 1664525u + 1013904223u;
        void** place = &alive[random >> 26];
        free(*place);
        *place = malloc(KIB(64) + (random >> 8) % KIB(64));
        CHECK(*place != NULL);
        *(unsigned char*)*place = 1;
      }
      for (unsigned i = 0; i < kAlive; ++i)
        free(alive[i]);
    }
  }
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
  CHECK(child > 0);
  int status = 0;
  pid_t ended = 0;
  for (unsigned i = 0; i < 50 * 100 * slower() && ended == 0; ++i) {
    usleep(10000);
    ended = waitpid(child, &status, WNOHANG);
  }
  if (ended == 0)
    kill(child, SIGKILL);
  CHECK(ended == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  printf("stopped clock ok\n");
  return 0;
}
