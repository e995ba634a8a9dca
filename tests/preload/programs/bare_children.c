// Children of bare system calls, for which no handler of fork() has run, while other threads have the
// C library's locks at nearly any moment: those of their arenas, and those on threads. A child never
// gets them, and does without; its own large blocks need none.
#define _GNU_SOURCE
#include <sys/syscall.h>

#include "support.h"

static volatile int stop;

// Sizes that glibc's caches of a thread do not keep, below all thresholds: each call locks the arena.
static void* allocate(void* argument) {
  for (size_t turn = 0; !stop; ++turn) {
    void* blocks[8];
    for (size_t i = 0; i < 8; ++i) {
      blocks[i] = malloc(1100 + (turn * 8 + i) * 97 % 2700);
      CHECK(blocks[i] != NULL);
    }
    for (size_t i = 0; i < 8; ++i)
      free(blocks[i]);
  }
  return argument;
}

static void* do_nothing(void* argument) {
  return argument;
}

static void* start_threads(void* argument) {
  while (!stop) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, do_nothing, NULL) == 0)
      pthread_join(thread, NULL);
  }
  return argument;
}

// A loop of its own, taller than all before it: learned, and served from a slab that is new.
static void work(void) {
  for (unsigned iteration = 0; iteration < 40; ++iteration) {
    unsigned char* blocks[10];
    for (unsigned i = 0; i < 10; ++i) {
      const size_t size = MIB(2) + i * KIB(300);
      blocks[i] = malloc(size);
      CHECK(blocks[i] != NULL);
      blocks[i][0] = blocks[i][size - 1] = (unsigned char)i;
    }
    for (unsigned i = 0; i < 10; ++i) {
      CHECK(blocks[i][0] == i);
      free(blocks[i]);
    }
  }
}

static void fork_while(void* (*others)(void*), const char* what) {
  pthread_t thread;
  stop = 0;
  CHECK(pthread_create(&thread, NULL, others, NULL) == 0);
  for (unsigned i = 0; i < repeated(8, 3); ++i) {
    usleep(300);
    const pid_t child = (pid_t)syscall(SYS_clone, (long)SIGCHLD, 0L, 0L, 0L, 0L);
    if (child == 0) {
      work();
      CHECK(count_threads() == 1);
      syscall(SYS_exit_group, 0);
    }
    ends_well_within(child, 30);
  }
  stop = 1;
  CHECK(pthread_join(thread, NULL) == 0);
  printf("bare children while others %s ok\n", what);
}

int main(void) {
  if (!on_glibc()) {
    printf("skipped: another allocator's own locks may be in a child's way\n");
    return 77;
  }
  for (int known = 0; known < 2; ++known) {  // before and after the first large call
    fork_while(allocate, "allocate");
    fork_while(start_threads, "start threads");
    learn_steps();
  }
  return 0;
}
