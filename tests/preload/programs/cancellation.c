// malloc is no cancellation point: a thread with a cancellation pending goes through learning,
// planning and serving, with every report asked for, and ends only where it says so itself. What
// its cleanup handlers free comes back whole.
#include <fcntl.h>

#include "support.h"

static pthread_barrier_t pending;
static volatile int arrived;

static void free_steps_of(void* blocks) {
  free_steps((void**)blocks);
}

static void* allocate_while_pending(void* unused) {
  (void)unused;
  void* blocks[kStepCount];
  int before = 0;
  CHECK(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before) == 0);
  pthread_barrier_wait(&pending);  // now others may cancel
  pthread_barrier_wait(&pending);  // now they have
  CHECK(pthread_setcancelstate(before, NULL) == 0);
  learn_steps();
  for (int i = 0; i < 60; ++i) {  // another sequence: the plan diverges, and a new one is made
    void* first = calloc(1, KIB(200) + KIB(4) * (size_t)(i % 7));
    void* second = realloc(malloc(100), KIB(333));
    CHECK(first && second);
    free(first), free(second);
  }
  take_steps(blocks);
  pthread_cleanup_push(free_steps_of, blocks);
  arrived = 1;
  pthread_testcancel();
  arrived = 2;
  pthread_cleanup_pop(1);
  return NULL;
}

static void cancellations_wait(void) {
  CHECK(pthread_barrier_init(&pending, NULL, 2) == 0);
  for (int i = 0; i < 5; ++i) {
    pthread_t thread;
    void* result = NULL;
    arrived = 0;
    CHECK(pthread_create(&thread, NULL, allocate_while_pending, NULL) == 0);
    pthread_barrier_wait(&pending);
    CHECK(pthread_cancel(thread) == 0);
    pthread_barrier_wait(&pending);
    CHECK(pthread_join(thread, &result) == 0);
    CHECK(result == PTHREAD_CANCELED && arrived == 1);
  }
}

// Its reports go nowhere, since without the library there are none.
static int run_reporting(void) {
  const int kept = dup(STDERR_FILENO);
  const int nowhere = open("/dev/null", O_WRONLY);
  CHECK(kept >= 0 && dup2(nowhere, STDERR_FILENO) == STDERR_FILENO);
  const int status = run_again("reporting", NULL, NULL);
  CHECK(dup2(kept, STDERR_FILENO) == STDERR_FILENO);
  close(kept), close(nowhere);
  return status;
}

int main(int argc, char** argv) {
  (void)argv;
  cancellations_wait();
  check_served();
  if (argc == 2)
    return 0;
  printf("cancellations wait ok\n");
  char path[64];
  snprintf(path, sizeof path, "/tmp/cancellation.%d", (int)getpid());
  setenv("MEMOMALLOC_VERBOSE", "3", 1);
  setenv("MEMOMALLOC_STATS_FILE", path, 1);
  CHECK(run_reporting() == 0);
  unlink(path);
  printf("cancellations wait for reports ok\n");
  return 0;
}
