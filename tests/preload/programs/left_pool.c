// Blocks in no order, small and large, and then a pause, in a process that is never served from a
// plan: what was kept for them is gone some seconds later, from the underlying allocator, too, and the thread
// that saw to it has ended. Who goes on after the pause faults no more than at first. A child that is
// forked in the midst sees to its own. Few calls are worth no thread, nor is a loop that keeps less than
// 16 MiB in a process that has no thread but its first.
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>

#include "support.h"

enum { kBlocks = 64, kSmall = 40000, kPatience = 30 };  // seconds

// Of the process, without mapped files.
static size_t resident(void) {
  char text[256] = {0};
  FILE* file = fopen("/proc/self/statm", "r");
  unsigned long pages = 0, shared = 0;
  CHECK(file != NULL && fgets(text, sizeof text, file) != NULL);
  CHECK(sscanf(text, "%*u %lu %lu", &pages, &shared) == 2);
  fclose(file);
  return (pages - shared) * (size_t)sysconf(_SC_PAGESIZE);
}

static long faults(void) {
  struct rusage usage;
  CHECK(getrusage(RUSAGE_SELF, &usage) == 0);
  return usage.ru_minflt;
}

static unsigned state = 1;
static unsigned next_random(void) {
  state = state * 1664525u + 1013904223u;
  return state >> 8;
}

static void* small[kSmall];

// 16 MiB of small blocks of which every 128th outlives the rest, so that the underlying allocator cannot give
// them back by itself, and on average 24 MiB in large ones.
static void work(unsigned rounds) {
  static void* blocks[kBlocks];
  for (unsigned i = 0; i < kSmall; ++i) {
    free(small[i]);
    small[i] = malloc(400);
    CHECK(small[i] != NULL);
    fill(small[i], 400, i);
  }
  for (unsigned i = 0; i < rounds; ++i) {
    void** block = &blocks[next_random() % kBlocks];
    free(*block);
    const size_t size = KIB(128) + next_random() % KIB(512);
    *block = malloc(size);
    CHECK(*block != NULL);
    fill(*block, size, i);
  }
  for (unsigned i = 0; i < kBlocks; ++i) {
    free(blocks[i]);
    blocks[i] = NULL;
  }
  for (unsigned i = 0; i < kSmall; ++i) {
    if (i % 128 != 0) {
      free(small[i]);
      small[i] = NULL;
    }
  }
}

static void pause_for(unsigned milliseconds) {
  const struct timespec time = {milliseconds / 1000, milliseconds % 1000 * 1000000L};
  nanosleep(&time, NULL);
}

// Waits until no thread is left but this one, and what is resident is less.
static void rest(size_t most) {
  for (unsigned i = 0; i < 10 * kPatience * slower(); ++i) {
    if (count_threads() == 1 && resident() <= most)
      return;
    pause_for(100);
  }
  dprintf(STDERR_FILENO, "%u threads, %zu KiB of %zu\n", count_threads(), resident() >> 10,
          most >> 10);
  CHECK(!"all was given back");
}

static void few_calls(void) {
  for (size_t size = KIB(64); size <= MIB(32); size *= 2) {
    void* block = malloc(size);
    CHECK(block != NULL);
    fill(block, size, 1);
    free(block);
  }
  CHECK(count_threads() == 1);
}

// 12 MiB, of which each thread but the first would have another one.
static void small_loop(void) {
  enum { kInLoop = 3 };
  for (unsigned round = 0; round < 40; ++round) {
    void* blocks[kInLoop];
    for (unsigned i = 0; i < kInLoop; ++i) {
      blocks[i] = malloc(MIB(4));
      CHECK(blocks[i] != NULL);
      fill(blocks[i], MIB(4), round);
    }
    for (unsigned i = 0; i < kInLoop; ++i)
      free(blocks[i]);
  }
  CHECK(count_threads() == 1);
}

int main(void) {
  // Without the library nothing is given back, and a served process gives its slabs back as well.
  const int kept = memomalloc_version && serving_expected() && on_glibc();
  // Page faults are to tell of memory: what once came in huge pages and was given back comes in small
  // ones, as its page table stays.
  CHECK(prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) == 0);
  few_calls();
  printf("few calls ok\n");
  if (kept) {
    small_loop();
    memomalloc_release();  // the next loop is to begin with nothing at hand, as without this one
  }
  printf("a small loop ok\n");
  const size_t before = resident();
  const long begin = faults();
  work(2000);
  const long at_first = faults() - begin;
  if (kept) {
    CHECK(count_threads() >= 2);  // on several NUMA nodes it starts another one at times
    rest(before + MIB(6));
  }
  printf("a loop that was left ok\n");
  const long then = faults();
  work(2000);
  const long again = faults() - then;
  // On several nodes Linux takes pages away for a moment to see who uses them (numa_balancing).
  const int alone = access("/sys/devices/system/node/node1", F_OK) != 0;
  if (kept && alone && again > at_first + at_first / 8) {
    dprintf(STDERR_FILENO, "%ld page faults, then %ld\n", at_first, again);
    CHECK(!"no more page faults than at first");
  }
  printf("the loop again ok\n");
  int status = 0;
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    end_after(3 * kPatience);
    work(2000);
    if (kept)
      rest(before + MIB(6));
    _exit(7);
  }
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
  printf("a child ok\n");
  return 0;
}
