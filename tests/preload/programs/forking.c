// fork while other threads allocate, learn and plan; children go on with the slab they inherited.
#include <sys/wait.h>

#include "room.h"
#include "support.h"

static volatile int stop;

// Restarts learning again and again with new sizes, so that recording, planning and serving are all
// under way while the main thread forks.
static void* keep_learning(void* argument) {
  unsigned seed = (unsigned)(size_t)argument + 1;
  while (!stop) {
    for (int repetition = 0; repetition < 8; ++repetition) {
      void* blocks[12];
      for (unsigned i = 0; i < 12; ++i) {
        blocks[i] = malloc(KIB(64) + seed % 97 * KIB(1) + i * KIB(4));
        CHECK(blocks[i] != NULL);
        memset(blocks[i], (int)i, 64);
      }
      for (unsigned i = 0; i < 12; ++i)
        free(blocks[i]);
    }
    ++seed;
  }
  return NULL;
}

static void fork_while_others_allocate(void) {
  enum { kThreads = 3 };
  pthread_t threads[kThreads];
  for (size_t i = 0; i < kThreads; ++i)
    CHECK(pthread_create(&threads[i], NULL, keep_learning, (void*)(i * 1000)) == 0);
  learn_steps();
  for (unsigned i = 0; i < repeated(60, 6); ++i) {
    void* blocks[kStepCount];
    take_steps(blocks);
    const pid_t child = fork();
    if (child == 0) {
      end_after(30);
      free_steps(blocks);
      learn_steps();
      void* block = realloc(malloc(100), MIB(1));
      CHECK(block != NULL);
      free(block);
      _exit(0);
    }
    ends_well(child);
    free_steps(blocks);
  }
  stop = 1;
  for (int i = 0; i < kThreads; ++i)
    CHECK(pthread_join(threads[i], NULL) == 0);
  printf("fork while others allocate ok\n");
}

// Most forks find a thread planning.
static void* keep_planning(void* argument) {
  for (unsigned seed = (unsigned)(size_t)argument + 7919; !stop; seed += 7919)
    for (int repetition = 0; repetition < 5 && !stop; ++repetition)
      work_in_no_order(seed);
  return NULL;
}

static void fork_while_others_plan(void) {
  enum { kThreads = 2 };
  pthread_t threads[kThreads];
  stop = 0;
  const long before = counter("plans");
  for (size_t i = 0; i < kThreads; ++i)
    CHECK(pthread_create(&threads[i], NULL, keep_planning, (void*)(i * 31 + 1)) == 0);
  // On a slower machine the first plan takes longer.
  for (unsigned i = 0; i < repeated(25, 5) ||
                       (serving_expected() && counter("plans") == before && i < 25 * slower());
       ++i) {
    usleep(7000);
    const pid_t child = fork();
    if (child == 0) {
      end_after(30);
      learn_steps();
      exit(0);
    }
    ends_well(child);
  }
  stop = 1;
  for (int i = 0; i < kThreads; ++i)
    CHECK(pthread_join(threads[i], NULL) == 0);
  if (serving_expected())
    CHECK(counter("plans") > before);
  printf("fork while others plan ok\n");
}

// Parent and child hold the same addresses; what one writes the other must not see.
static void slab_is_private_to_each(void) {
  void* blocks[kStepCount];
  learn_steps();
  take_served_steps(blocks);
  int ready[2];
  CHECK(pipe(ready) == 0);
  const pid_t child = fork();
  if (child == 0) {
    for (unsigned i = 0; i < kStepCount; ++i)
      memset(blocks[i], 0xcc, step_size(i));
    for (unsigned i = 0; i < kStepCount; ++i)
      free(blocks[i]);
    learn_steps();
    CHECK(write(ready[1], "x", 1) == 1);
    exit(0);
  }
  char byte;
  CHECK(read(ready[0], &byte, 1) == 1);
  ends_well(child);
  close(ready[0]), close(ready[1]);
  free_steps(blocks);
  printf("slab is private to each ok\n");
}

// Like a pool of worker processes: each child serves its own loop, starts threads and ends by
// exit().
static void* learn_in_thread(void* unused) {
  (void)unused;
  learn_steps();
  return NULL;
}

// As many as there is memory for, should all of them be at work at once.
static void worker_processes(void) {
  enum { kMany = 6, kFew = 2 };
  pid_t workers[kMany];
  const int count = has_room(kMany * MIB(100)) ? kMany : kFew;
  learn_steps();
  for (int i = 0; i < count; ++i) {
    workers[i] = fork();
    if (workers[i] == 0) {
      pthread_t thread;
      void* blocks[kStepCount];
      learn_steps();
      take_served_steps(blocks);
      CHECK(pthread_create(&thread, NULL, learn_in_thread, NULL) == 0);
      CHECK(pthread_join(thread, NULL) == 0);
      free_steps(blocks);
      exit(0);
    }
  }
  for (int i = 0; i < count; ++i)
    ends_well(workers[i]);
  printf("worker processes ok\n");
}

// A child whose first large call makes a block greater in place: its own child has what it wrote there, and what others
// write there later.
static void grow_first_in_child(void) {
  enum { kKept = 8, kGrown = MIB(12) };
  char* kept[kKept];
  for (unsigned i = 0; i < kKept; ++i) {
    kept[i] = malloc(MIB(1));
    fill(kept[i], MIB(1), i);
  }
  char* grows = malloc(MIB(1));
  char* const freed = malloc(MIB(16));
  char* const last = malloc(MIB(1));
  fill(freed, MIB(16), 1);
  free(freed);
  const pid_t child = fork();
  if (child == 0) {
    grows = realloc(grows, kGrown);
    for (int round = 0; round < 2; ++round) {
      fill(grows, kGrown, 7u + (unsigned)round);
      const pid_t grandchild = fork();
      if (grandchild == 0)
        _exit(filled(grows, kGrown, 7u + (unsigned)round) ? 0 : 1);
      ends_well(grandchild);
      free(grows);
      grows = malloc(kGrown);
    }
    exit(0);
  }
  ends_well(child);
  for (unsigned i = 0; i < kKept; ++i) {
    CHECK(filled(kept[i], MIB(1), i));
    free(kept[i]);
  }
  free(grows);
  free(last);
  printf("growing in a child ok\n");
}

// All of them are alive at once. `depth` generations are to come.
static void generations(int depth, int all) {
  learn_steps();
  if (depth == 0)
    exit(0);
  const pid_t child = fork();
  if (child == 0)
    generations(depth - 1, all);
  ends_well(child);
  if (depth < all)
    exit(0);
  printf("generations ok\n");
}

int main(void) {
  setvbuf(stdout, NULL, _IONBF, 0);
  fork_while_others_allocate();
  fork_while_others_plan();
  slab_is_private_to_each();
  worker_processes();
  grow_first_in_child();
  const int depth = has_room(6 * MIB(100)) ? 5 : 2;
  generations(depth, depth);
  return 0;
}
