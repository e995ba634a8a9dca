// Threads that end with blocks of their slab alive, and 10,000 threads one after the other and in
// groups.
#define _GNU_SOURCE  // CPU_COUNT
#include <sched.h>

#include "support.h"

// All are alive at once: a thread that came later could take over the slab of one that ended, where
// the places are still occupied.
static pthread_barrier_t all_alive;

// The stacks of threads that live at once have to fit into the machine's memory.
static void use_small_stacks(pthread_attr_t* attributes) {
  CHECK(pthread_attr_init(attributes) == 0);
  CHECK(pthread_attr_setstacksize(attributes, MIB(1)) == 0);
}

static void* leave_blocks(void* blocks) {
  learn_steps();
  take_served_steps((void**)blocks);
  pthread_barrier_wait(&all_alive);
  return NULL;
}

// As many as have a slab at once: two for each processor.
static int slabs(int most) {
  cpu_set_t processors;
  CHECK(sched_getaffinity(0, sizeof processors, &processors) == 0);
  const int count = 2 * CPU_COUNT(&processors);
  return count < most ? count : most;
}

static void blocks_outlive_their_thread(void) {
  enum { kMost = 12 };
  static void* blocks[kMost][kStepCount];
  const int count = slabs(kMost);
  pthread_t threads[kMost];
  pthread_attr_t small;
  use_small_stacks(&small);
  CHECK(pthread_barrier_init(&all_alive, NULL, (unsigned)count) == 0);
  for (int i = 0; i < count; ++i)
    CHECK(pthread_create(&threads[i], &small, leave_blocks, blocks[i]) == 0);
  for (int i = 0; i < count; ++i)
    CHECK(pthread_join(threads[i], NULL) == 0);
  pthread_attr_destroy(&small);
  void* own[kStepCount];
  learn_steps();
  take_steps(own);
  for (int i = 0; i < count; ++i) {
    blocks[i][1] = realloc(blocks[i][1], step_size(1) * 2);
    CHECK(blocks[i][1] && filled(blocks[i][1], step_size(1), 1));
    free_steps(blocks[i]);
  }
  free_steps(own);
  printf("blocks outlive their thread ok\n");
}

static void* cancelled(void* unused) {
  (void)unused;
  learn_steps();
  void* block = malloc(step_size(0));
  pthread_cleanup_push(free, block);
  for (;;)
    usleep(1000);
  pthread_cleanup_pop(1);
  return NULL;
}

static void cancelled_threads(void) {
  for (int i = 0; i < 8; ++i) {
    pthread_t thread;
    void* result = NULL;
    CHECK(pthread_create(&thread, NULL, cancelled, NULL) == 0);
    usleep(3000);
    CHECK(pthread_cancel(thread) == 0);
    CHECK(pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED);
  }
  printf("cancelled threads ok\n");
}

static void* short_life(void* unused) {
  (void)unused;
  void* blocks[3];
  for (unsigned i = 0; i < 3; ++i) {
    blocks[i] = malloc(step_size(i));
    CHECK(blocks[i] != NULL);
    memset(blocks[i], (int)i, 64);
  }
  for (unsigned i = 0; i < 3; ++i)
    free(blocks[i]);
  return NULL;
}

static void ten_thousand_threads(void) {
  enum { kGroup = 20 };
  const unsigned groups = repeated(500, 25);
  pthread_t threads[kGroup];
  pthread_attr_t small;
  use_small_stacks(&small);
  for (unsigned group = 0; group < groups; ++group) {
    for (int i = 0; i < kGroup; ++i)
      CHECK(pthread_create(&threads[i], &small, short_life, NULL) == 0);
    for (int i = 0; i < kGroup; ++i)
      CHECK(pthread_join(threads[i], NULL) == 0);
  }
  pthread_attr_destroy(&small);
  printf("%u threads ok\n", kGroup * groups);
}

// Ended threads must give back what they held: the process may not grow with every thread that
// served.
static long resident_kib(void) {
  long size = 0, resident = 0;
  FILE* file = fopen("/proc/self/statm", "r");
  CHECK(file && fscanf(file, "%ld %ld", &size, &resident) == 2);
  fclose(file);
  return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

static void* serve_and_end(void* unused) {
  (void)unused;
  learn_steps();
  return NULL;
}

static void ended_threads_do_not_add_up(void) {
  long before = 0;
  for (int i = 0; i < 130; ++i) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, serve_and_end, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    if (i == 50)
      before = resident_kib();
  }
  // 100 slabs of 1.8 MiB kept would be 180 MiB.
  CHECK(resident_kib() - before < 64 * 1024);
  printf("ended threads do not add up ok\n");
}

int main(void) {
  blocks_outlive_their_thread();
  cancelled_threads();
  ten_thousand_threads();
  ended_threads_do_not_add_up();
  return 0;
}
