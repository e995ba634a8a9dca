// Threads that live on and seldom work, many more than the library has lanes: each makes some large calls, waits, and
// makes some more, a few threads at a time. A lane goes to whoever works, each call is in the figures once, and what a
// thread leaves alive while it waits stays whole though another has its lane by then.
//
// LIVE_THREADS in the environment: so many of them, and what they hold is told.
#include <semaphore.h>

#include "support.h"

enum { kUsually = 600, kCalls = 10, kRounds = 4, kAtOnce = 4 };

static sem_t at_work, arrived, go_on;

static size_t size_of(unsigned call) {
  return KIB(64) + call * call * 2304;
}

// Each block is freed after the next one is taken, the first at the end.
static void work(unsigned rounds, unsigned id) {
  for (unsigned i = 0; i < rounds * kCalls; i += kCalls) {
    void* blocks[kCalls];
    for (unsigned call = 0; call < kCalls; ++call) {
      blocks[call] = malloc(size_of(call));
      CHECK(blocks[call] != NULL);
      fill(blocks[call], KIB(4), id + call);
      if (call >= 2) {
        CHECK(filled(blocks[call - 1], KIB(4), id + call - 1));
        free(blocks[call - 1]);
      }
    }
    CHECK(filled(blocks[0], KIB(4), id));
    free(blocks[kCalls - 1]);
    free(blocks[0]);
  }
}

static void* live(void* argument) {
  const unsigned id = (unsigned)(size_t)argument;
  CHECK(sem_wait(&at_work) == 0);
  work(kRounds, id);
  void* kept = malloc(size_of(0));
  fill(kept, size_of(0), id);
  CHECK(sem_post(&at_work) == 0 && sem_post(&arrived) == 0);
  CHECK(sem_wait(&go_on) == 0);
  CHECK(sem_wait(&at_work) == 0);
  CHECK(filled(kept, size_of(0), id));
  free(kept);
  work(kRounds, id);
  CHECK(sem_post(&at_work) == 0 && sem_post(&arrived) == 0);
  return NULL;
}

static void wait_for(unsigned threads) {
  for (unsigned i = 0; i < threads; ++i)
    CHECK(sem_wait(&arrived) == 0);
}

static long resident_kib(void) {
  long all = 0, resident = 0;
  FILE* file = fopen("/proc/self/statm", "r");
  CHECK(file != NULL && fscanf(file, "%ld %ld", &all, &resident) == 2);
  fclose(file);
  return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

// Every large call is counted once.
static void check_sums(long calls) {
  const long large = counter("large_allocations");
  CHECK(large == counter("planned_allocations") + counter("at_hand_allocations") +
                     counter("other_allocations"));
  CHECK(large == calls);
}

int main(void) {
  const char* told = getenv("LIVE_THREADS");
  const unsigned many = told != NULL ? (unsigned)atoi(told) : repeated(kUsually, 300);
  pthread_t* threads = calloc(many, sizeof *threads);
  pthread_attr_t small;
  end_after(300);
  CHECK(sem_init(&at_work, 0, kAtOnce) == 0 && sem_init(&arrived, 0, 0) == 0);
  CHECK(sem_init(&go_on, 0, 0) == 0);
  CHECK(pthread_attr_init(&small) == 0 && pthread_attr_setstacksize(&small, KIB(128)) == 0);
  work(40, 0);  // what the others follow
  const long before = resident_kib(), calls = counter("large_allocations");
  for (size_t i = 0; i < many; ++i)
    CHECK(pthread_create(&threads[i], &small, live, (void*)i) == 0);
  wait_for(many);
  const long alive = resident_kib();
  const long other = counter("other_bytes"), large = counter("large_bytes");
  for (unsigned i = 0; i < many; ++i)
    CHECK(sem_post(&go_on) == 0);
  wait_for(many);
  if (memomalloc_stats_json && calls != 0)
    check_sums(calls + (long)many * (2 * kRounds * kCalls + 1));
  // Of what the threads that come back ask for at least 95 of 100 parts are from a plan or at hand.
  if (serving_expected())
    CHECK((counter("other_bytes") - other) * 20 <= counter("large_bytes") - large);
  for (unsigned i = 0; i < many; ++i)
    CHECK(pthread_join(threads[i], NULL) == 0);
  free(threads);
  if (told != NULL)
    printf("%u threads: %.1f KiB each, of which %.1f are a block; other bytes %.2f %% later\n",
           many, (double)(alive - before) / many, (double)size_of(0) / 1024,
           100.0 * (double)(counter("other_bytes") - other) /
               (double)(counter("large_bytes") - large + 1));
  printf("live threads ok\n");
  return 0;
}
