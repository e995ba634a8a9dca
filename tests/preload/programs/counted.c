// Every large call of every thread is counted once: from a plan's slab, from memory at hand in the
// pool, or neither; the three add up to all, and only rise. A forked child begins at zero.
#include <malloc.h>

#include "support.h"

enum { kThreads = 100, kEach = 8, kNames = 9 };

static const char* const names[kNames] = {
    "large_allocations",   "large_bytes",          "planned_allocations",
    "planned_bytes",       "at_hand_bytes",        "other_bytes",
    "at_hand_allocations", "fallback_allocations", "other_allocations"};

// True if the library watches: it counts nothing where it only passes on.
static int counts;

static void check_sums(void) {
  CHECK(counter("planned_allocations") + counter("at_hand_allocations") +
            counter("other_allocations") ==
        counter("large_allocations"));
  CHECK(counter("planned_bytes") + counter("at_hand_bytes") + counter("other_bytes") ==
        counter("large_bytes"));
}

// Calls and bytes since the last look must be these.
static void check_counted(long calls, long bytes) {
  static long calls_before, bytes_before;
  if (counts) {
    CHECK(counter("large_allocations") - calls_before == calls);
    CHECK(counter("large_bytes") - bytes_before == bytes);
    check_sums();
  }
  calls_before = counter("large_allocations");
  bytes_before = counter("large_bytes");
}

static void allocate(unsigned times, size_t size) {
  for (unsigned i = 0; i < times; ++i) {
    void* volatile block = malloc(size);
    CHECK(block != NULL);
    free(block);
  }
}

static pthread_barrier_t together;

static void* few_calls(void* nothing) {
  pthread_barrier_wait(&together);
  allocate(kEach, MIB(1));
  pthread_barrier_wait(&together);
  return nothing;
}

// More threads at once than have ever had lanes.
static void many_threads(void) {
  pthread_t threads[kThreads];
  pthread_attr_t small;
  CHECK(pthread_attr_init(&small) == 0 && pthread_attr_setstacksize(&small, KIB(128)) == 0);
  CHECK(pthread_barrier_init(&together, NULL, kThreads) == 0);
  for (unsigned i = 0; i < kThreads; ++i)
    CHECK(pthread_create(&threads[i], &small, few_calls, NULL) == 0);
  for (unsigned i = 0; i < kThreads; ++i)
    CHECK(pthread_join(threads[i], NULL) == 0);
  check_counted((long)kThreads * kEach, (long)(kThreads * kEach * MIB(1)));
}

// A block of the underlying allocator becomes a large one.
static void growth(void) {
  void* block = malloc(1000);
  CHECK(block != NULL);
  block = realloc(block, MIB(2));
  CHECK(block != NULL);
  check_counted(1, (long)MIB(2));
  free(block);
}

static void strict_alignment(void) {
  void* block = NULL;
  CHECK(posix_memalign(&block, MIB(128), MIB(1)) == 0);
  check_counted(1, (long)MIB(1));
  free(block);
}

// No order first, then a loop: what pooling counted is not taken back.
static void* only_rising(void* nothing) {
  long before[kNames] = {0};
  unsigned seed = 1;
  const unsigned last = 500 + repeated(200, 12);
  for (unsigned i = 0; i < last; ++i) {
    seed = seed * 1103515245u + 12345u;
    if (i < 500)
      allocate(1, KIB(64) + (seed >> 8) % MIB(1));
    else
      learn_steps();
    for (unsigned n = 0; n < kNames; ++n) {
      const long now = counter(names[n]);
      CHECK(now >= before[n]);
      before[n] = now;
    }
    check_sums();
  }
  if (serving_expected())
    CHECK(counter("planned_allocations") > 0);
  return nothing;
}

static void in_a_child(void) {
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    CHECK(counter("large_allocations") == 0 && counter("other_bytes") == 0);
    CHECK(counter("planned_bytes") == 0 && counter("fallback_early") == 0);
    allocate(kEach, MIB(1));
    if (counts)
      CHECK(counter("large_allocations") == kEach);
    check_sums();
    _exit(0);
  }
  int status = -1;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
}

int main(void) {
  check_counted(0, 0);  // what start-up has counted
  void* (*volatile refused)(size_t) = malloc;
  CHECK(refused(PTRDIFF_MAX / 2) == NULL);  // no allocation, and in no share
  allocate(40, MIB(1));                     // the first sixteen are not ours
  counts = counter("large_allocations") != 0;
  CHECK(counts || !serving_expected());
  check_counted(40, (long)(40 * MIB(1)));
  many_threads();
  growth();
  strict_alignment();
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, only_rising, NULL) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
  in_a_child();
  puts("ok");
  return 0;
}
