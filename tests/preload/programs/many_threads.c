// More threads at once than the library has lanes: those that were refused one are served when the
// others have ended; a forked child of such a process, where none of the others exists, serves new
// threads. Blocks that a thread leaves behind stay whole, also in the child.
#include <semaphore.h>

#include "support.h"

enum { kMany = 200, kLate = 20 };

static void* left[kMany];
static sem_t go_on, arrived, late_may_go, late_done;

static void* stay(void* argument) {
  const size_t number = (size_t)argument;
  left[number] = malloc(KIB(64) + number * 16);
  CHECK(left[number] != NULL);
  fill(left[number], KIB(64), (unsigned)number);
  CHECK(sem_post(&arrived) == 0);
  CHECK(sem_wait(&go_on) == 0);
  return NULL;
}

// Started when all lanes are taken; lives on when they are free again.
static void* stay_late(void* argument) {
  stay(argument);
  CHECK(sem_wait(&late_may_go) == 0);
  learn_steps();
  CHECK(sem_post(&late_done) == 0);
  return NULL;
}

static void start(pthread_t* threads, size_t first, size_t count, size_t stack,
                  void* (*body)(void*)) {
  pthread_attr_t small;
  CHECK(pthread_attr_init(&small) == 0);
  CHECK(pthread_attr_setstacksize(&small, stack) == 0);
  for (size_t i = first; i < first + count; ++i) {
    CHECK(pthread_create(&threads[i], &small, body, (void*)i) == 0);
    CHECK(sem_wait(&arrived) == 0);
  }
  pthread_attr_destroy(&small);
}

static void join(pthread_t* threads, size_t first, size_t count) {
  for (size_t i = first; i < first + count; ++i)
    CHECK(pthread_join(threads[i], NULL) == 0);
}

static void* learn_in_new_thread(void* unused) {
  (void)unused;
  const long before = counter("planned_allocations");
  learn_steps();
  if (serving_expected())
    CHECK(counter("planned_allocations") - before >= kStepCount);
  return NULL;
}

static void free_left(void) {
  for (size_t i = 0; i < kMany; ++i) {
    CHECK(filled(left[i], KIB(64), (unsigned)i));
    free(left[i]);
  }
}

static void child_serves_new_threads(void) {
  int status = 0;
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    end_after(60);
    pthread_t thread;
    for (int i = 0; i < 3; ++i) {
      CHECK(pthread_create(&thread, NULL, learn_in_new_thread, NULL) == 0);
      CHECK(pthread_join(thread, NULL) == 0);
    }
    free_left();
    _exit(7);
  }
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
}

int main(void) {
  static pthread_t threads[kMany];
  CHECK(sem_init(&go_on, 0, 0) == 0 && sem_init(&arrived, 0, 0) == 0);
  CHECK(sem_init(&late_may_go, 0, 0) == 0 && sem_init(&late_done, 0, 0) == 0);
  end_after(120);
  // Together they are to fit into a machine of 512 MiB that gives no more than it has; who learns needs
  // over 512 KiB of stack.
  start(threads, 0, kMany - kLate, KIB(128), stay);
  start(threads, kMany - kLate, kLate, MIB(1), stay_late);
  child_serves_new_threads();
  printf("a child of many threads ok\n");
  for (size_t i = 0; i < kMany; ++i)
    CHECK(sem_post(&go_on) == 0);
  join(threads, 0, kMany - kLate);
  const long before = counter("planned_allocations");
  for (size_t i = 0; i < kLate; ++i) {
    CHECK(sem_post(&late_may_go) == 0);
    // On a slower machine one by one: whoever holds a lock without a processor is waited for 40 ms.
    if (slower() > 1)
      CHECK(sem_wait(&late_done) == 0);
  }
  join(threads, kMany - kLate, kLate);
  if (serving_expected())
    CHECK(counter("planned_allocations") - before >= kLate * kStepCount);
  free_left();
  printf("threads that had been refused ok\n");
  return 0;
}
