// Forked children whose first call that comes to the library comes late, from another thread than the one that lives on, or
// is none of malloc's; and what a fork costs while a loop holds much memory.
#define _GNU_SOURCE
#include <sys/resource.h>
#include <sys/syscall.h>

#include "support.h"

extern void memomalloc_iteration(void) __attribute__((weak));

enum { kThreads = 4 };
static void* held[kStepCount];

static void work(void) {
  learn_steps();
}

static void* work_in_thread(void* unused) {
  work();
  return unused;
}

static void join_all(pthread_t* threads) {
  for (unsigned i = 0; i < kThreads; ++i)
    CHECK(pthread_join(threads[i], NULL) == 0);
}
static void start_all(pthread_t* threads) {
  for (unsigned i = 0; i < kThreads; ++i)
    CHECK(pthread_create(&threads[i], NULL, work_in_thread, NULL) == 0);
}

static void others_first(void) {
  pthread_t threads[kThreads];
  start_all(threads);
  work();
  join_all(threads);
}
static void free_first(void) {
  free_steps(held);
}
static void resize_first(void) {
  held[0] = realloc(held[0], step_size(0) - KIB(8));
  held[1] = realloc(held[1], 2 * step_size(1));
  CHECK(held[0] != NULL && filled(held[0], step_size(0) - KIB(8), 0));
  CHECK(held[1] != NULL && filled(held[1], step_size(1), 1));
}
static void say_iteration_first(void) {
  if (memomalloc_iteration)
    memomalloc_iteration();
}
static void release_first(void) {
  if (memomalloc_release)
    memomalloc_release();
}
static void count_first(void) {
  CHECK(counter("large_allocations") == 0);
}
static void* end_thread(void* unused) {
  free(malloc(MIB(1)));
  return unused;
}
static void thread_ends_first(void) {
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, end_thread, NULL) == 0 && pthread_join(thread, NULL) == 0);
}
static void grow_first(void) {
  char* block = malloc(100);
  block = realloc(block, MIB(1));
  CHECK(block != NULL);
  fill(block, MIB(1), 1);
  free(block);
}
// A child of its own is made before the child has come to the library.
static void fork_first(void) {
  const pid_t child = fork();
  if (child == 0) {
    others_first();
    _exit(0);
  }
  ends_well_within(child, 60);
}
static void clone_first(void) {
  if (!on_glibc())
    return;
  const pid_t child = (pid_t)syscall(SYS_clone, (long)SIGCHLD, 0L, 0L, 0L, 0L);
  if (child == 0) {
    work();
    syscall(SYS_exit_group, 0);
  }
  ends_well_within(child, 60);
}
static void nothing(void) {}

static void in_child(void (*first)(void)) {
  const pid_t child = fork();
  if (child == 0) {
    end_after(60);
    first();
    work();
    thread_ends_first();
    _exit(0);
  }
  ends_well_within(child, 60);
}

static void all_kinds(void) {
  void (*const kFirst[])(void) = {
      nothing,           others_first,        free_first, resize_first, release_first, count_first,
      thread_ends_first, say_iteration_first, fork_first, clone_first,  grow_first};
  for (size_t i = 0; i < sizeof kFirst / sizeof kFirst[0]; ++i) {
    take_steps(held);
    in_child(kFirst[i]);
    free_steps(held);
  }
}

static void served(void) {
  learn_steps();
  all_kinds();
}

// While other threads have the library's locks now and then.
static volatile int stop;
static void* keep_working(void* unused) {
  while (!stop)
    learn_steps();
  return unused;
}
static void beside_others(void) {
  pthread_t thread;
  learn_steps();
  CHECK(pthread_create(&thread, NULL, keep_working, NULL) == 0);
  all_kinds();
  stop = 1;
  CHECK(pthread_join(thread, NULL) == 0);
}

// Page faults of a child that does nothing, the fewest of some.
static long faults_of_child(void) {
  long fewest = 1 << 20;
  for (unsigned i = 0; i < 6; ++i) {
    struct rusage before, after;
    CHECK(getrusage(RUSAGE_CHILDREN, &before) == 0);
    const pid_t child = fork();
    if (child == 0)
      _exit(0);
    CHECK(waitpid(child, NULL, 0) == child && getrusage(RUSAGE_CHILDREN, &after) == 0);
    const long faults = after.ru_minflt - before.ru_minflt;
    fewest = faults < fewest ? faults : fewest;
  }
  return fewest;
}

static void* wait_for_stop(void* unused) {
  while (!stop)
    usleep(1000);
  return unused;
}

// Of what the library keeps for a loop next to nothing is written in a child that does not need it.
static void cost_little(void) {
  enum { kBlocks = 20 };
  if (getenv("MEMOMALLOC_OBSERVE"))
    return;  // an observer has tables that each call changes
  static void* blocks[kBlocks];
  pthread_t thread;
  // Where there is a second thread the C library has more to do at a fork.
  CHECK(pthread_create(&thread, NULL, wait_for_stop, NULL) == 0);
  const long before = faults_of_child();
  for (unsigned round = 0; round < 40; ++round) {
    for (unsigned i = 0; i < kBlocks; ++i) {
      blocks[i] = malloc(MIB(4) + KIB(64) * i);
      CHECK(blocks[i] != NULL);
      fill(blocks[i], MIB(4), i);
    }
    for (unsigned i = 0; i < kBlocks; ++i)
      free(blocks[i]);
  }
  const long after = faults_of_child();
  const long most =
      on_glibc() ? 12 : 24;  // jemalloc's child makes the locks of one more arena anew
  if (after > before + most)
    dprintf(STDERR_FILENO, "%ld page faults, %ld before the loop\n", after, before);
  CHECK(after <= before + most);
  stop = 1;
  CHECK(pthread_join(thread, NULL) == 0);
}

static const struct part kParts[] = {{"learning", all_kinds},
                                     {"served", served},
                                     {"beside_others", beside_others},
                                     {"cost_little", cost_little}};

int main(int count, char** words) {
  end_after(250);
  return run_parts(count, words, kParts, sizeof kParts / sizeof kParts[0]);
}
