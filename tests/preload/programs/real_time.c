// Two threads of the real-time class SCHED_FIFO on one processor: the one of higher priority gets
// it whenever it wants, so what the lower one holds must be waited for asleep. Both allocate, give
// back and come and go; the higher one forks. Needs root.
#define _GNU_SOURCE
#include <malloc.h>
#include <sched.h>

#include "support.h"

enum { kBlocks = 10, kWakesPerFork = 10 };

static volatile int stop;
static int cpu;

static size_t large(unsigned i) {
  return KIB(128) + KIB(16) * ((i * 5u) % 13u);
}

static void take_and_free(unsigned count) {
  void* blocks[kBlocks];
  for (unsigned i = 0; i < count; ++i) {
    blocks[i] = malloc(large(i));
    CHECK(blocks[i] != NULL);
    memset(blocks[i], (int)i, large(i));
  }
  for (unsigned i = 0; i < count; ++i)
    free(blocks[i]);
}

// False where the system does not let us.
static int become(int priority) {
  const struct sched_param parameter = {.sched_priority = priority};
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(cpu, &one);
  return sched_setaffinity(0, sizeof one, &one) == 0 &&
         sched_setscheduler(0, SCHED_FIFO, &parameter) == 0;
}

static void* one_round(void* rounds) {
  for (unsigned i = 0; i < (unsigned)(size_t)rounds; ++i)
    take_and_free(kBlocks - i % 3);
  return NULL;
}

static void* run_low(void* unused) {
  (void)unused;
  CHECK(become(1));
  while (!stop) {
    pthread_t thread;  // of the same class: a new stream of calls, and its end
    CHECK(pthread_create(&thread, NULL, one_round, (void*)20) == 0);
    for (unsigned i = 0; i < 4; ++i) {
      take_and_free(kBlocks);
      malloc_trim(0);
      if (memomalloc_release)
        memomalloc_release();
    }
    CHECK(pthread_join(thread, NULL) == 0);
  }
  return NULL;
}

static void* run_high(void* unused) {
  (void)unused;
  CHECK(become(2));
  const unsigned wakes = repeated(600, 60);
  for (unsigned i = 0; i < wakes; ++i) {
    const struct timespec moment = {0, 20000 + 1000 * (i * 7 % 400)};
    nanosleep(&moment, NULL);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, one_round, (void*)2) == 0);
    take_and_free(kBlocks - i % 4);
    CHECK(pthread_join(thread, NULL) == 0);
    if (i % kWakesPerFork == 0) {
      int status = 0;
      const pid_t child = fork();
      if (child == 0) {
        end_after(20);
        take_and_free(kBlocks);
        _exit(7);
      }
      CHECK(waitpid(child, &status, 0) == child);
      CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    }
  }
  stop = 1;
  return NULL;
}

// The signal of alarm() ends the process also where its threads never let the processor go.
int main(void) {
  pthread_t high, low;
  end_after(30);
  cpu = sched_getcpu();
  cpu_set_t before;
  CHECK(sched_getaffinity(0, sizeof before, &before) == 0);
  if (!become(1)) {
    printf("skipped: needs the right to real-time scheduling\n");
    return 0;
  }
  const struct sched_param ordinary = {0};
  CHECK(sched_setscheduler(0, SCHED_OTHER, &ordinary) == 0);
  CHECK(sched_setaffinity(0, sizeof before, &before) == 0);
  CHECK(pthread_create(&low, NULL, run_low, NULL) == 0);
  CHECK(pthread_create(&high, NULL, run_high, NULL) == 0);
  CHECK(pthread_join(high, NULL) == 0);
  CHECK(pthread_join(low, NULL) == 0);
  check_served();
  printf("high and low ok\n");
  return 0;
}
