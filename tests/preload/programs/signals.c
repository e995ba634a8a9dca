// A SIGPROF storm: handlers interrupt the allocator everywhere, look at the stack as profilers do,
// and allocate nothing. Nothing may hang, be lost or be interrupted into a failure.
#define _GNU_SOURCE
#include <execinfo.h>
#include <signal.h>
#include <sys/time.h>

#include "support.h"

static volatile long ticks;

static void on_tick(int number) {
  (void)number;
  const int kept = errno;
  void* frames[16];
  backtrace(frames, 16);
  __atomic_add_fetch(&ticks, 1, __ATOMIC_RELAXED);
  errno = kept;
}

static void* work(void* argument) {
  unsigned state = (unsigned)(size_t)argument;
  for (unsigned round = 0; round < repeated(60, 6); ++round) {
    learn_steps();
    // A few changed calls, to go through fallback and resynchronisation as well.
    void* extra = malloc(KIB(64) + (state = state * 1664525u + 1013904223u) % KIB(64));
    CHECK(extra != NULL);
    free(extra);
  }
  return NULL;
}

int main(void) {
  void* warm[2];
  backtrace(warm, 2);  // loads libgcc_s outside of any handler
  // Nothing is bound by the dynamic linker under the timer: glibc 2.36 describes the frame of its
  // _dl_runtime_resolve on AArch64 by 16 bytes too short, and libgcc then reads where nothing is.
  // The second thread has the first one's stack, for which glibc calls other functions.
  pthread_t first;
  for (int again = 0; again < 2; ++again)
    CHECK(pthread_create(&first, NULL, work, (void*)1) == 0 && pthread_join(first, NULL) == 0);
  struct sigaction action = {.sa_handler = on_tick, .sa_flags = SA_RESTART};
  CHECK(sigaction(SIGPROF, &action, NULL) == 0);
  const struct itimerval often = {{0, 500}, {0, 500}};
  CHECK(setitimer(ITIMER_PROF, &often, NULL) == 0);
  pthread_t threads[3];
  for (size_t i = 0; i < 3; ++i)
    CHECK(pthread_create(&threads[i], NULL, work, (void*)(i + 1)) == 0);
  for (size_t i = 0; i < 3; ++i)
    CHECK(pthread_join(threads[i], NULL) == 0);
  const struct itimerval never = {{0, 0}, {0, 0}};
  CHECK(setitimer(ITIMER_PROF, &never, NULL) == 0);
  CHECK(ticks > 0);
  check_served();
  printf("SIGPROF storm ok\n");
  return 0;
}
