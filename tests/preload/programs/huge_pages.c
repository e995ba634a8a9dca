// What a served program keeps comes into huge pages, weights and small blocks, and holds what it held: but neither what
// another process has as well, nor where the program has locked its memory. Each in a process of its own, whose
// kernel counts its huge pages.
#define _GNU_SOURCE
#include <sys/mman.h>

#include "support.h"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

enum { kSmall = 12000, kSmallBytes = 1500, kWeights = 5, kPatience = 30, kWatched = 5 };

static void* small[kSmall];  // 18 MB
static void* weights[kWeights];

static size_t weight_bytes(unsigned i) {
  return MIB(2) + KIB(512) + KIB(64) * i;
}

static void make(void) {
  for (unsigned i = 0; i < kSmall; ++i) {
    small[i] = malloc(kSmallBytes);
    CHECK(small[i] != NULL);
    fill(small[i], kSmallBytes, i);
  }
  for (unsigned i = 0; i < kWeights; ++i) {
    CHECK(posix_memalign(&weights[i], 64, weight_bytes(i)) == 0);
    fill(weights[i], weight_bytes(i), i);
  }
}

static void check(void) {
  for (unsigned i = 0; i < kSmall; ++i)
    CHECK(filled(small[i], kSmallBytes, i));
  for (unsigned i = 0; i < kWeights; ++i)
    CHECK(filled(weights[i], weight_bytes(i), i));
}

// Bytes in huge pages of the mappings in which `block` and all others of its kind lie.
static size_t huge_bytes(const void* block, const void* last) {
  char line[512];
  unsigned long start, end, sum = 0;
  int inside = 0;
  FILE* file = fopen("/proc/self/smaps", "r");
  CHECK(file != NULL);
  while (fgets(line, sizeof line, file) != NULL) {
    if (sscanf(line, "%lx-%lx ", &start, &end) == 2)
      inside = end > (unsigned long)block && start <= (unsigned long)last;
    else if (inside && strncmp(line, "AnonHugePages:", 14) == 0)
      sum += strtoul(line + 14, NULL, 10) << 10;
  }
  fclose(file);
  return sum;
}

// Of the small blocks, and of the weights but the first: a process' first large blocks are the next allocator's.
static size_t small_huge(void) {
  return huge_bytes(small[0], small[kSmall - 1]);
}
static size_t weights_huge(void) {
  return huge_bytes(weights[kWeights - 1], weights[kWeights - 1]);
}

// A loop that keeps so much that the library has a thread which looks after it.
static void iterate(void) {
  void* blocks[kStepCount];
  for (unsigned i = 0; i < kStepCount; ++i) {
    blocks[i] = malloc(MIB(2) + step_size(i));
    CHECK(blocks[i] != NULL);
    *(char*)blocks[i] = 1;
  }
  for (unsigned i = 0; i < kStepCount; ++i)
    free(blocks[i]);
}

// Sizes that no plan fits.
static void improvise(void) {
  static unsigned state = 1;
  void* blocks[kStepCount];
  for (unsigned i = 0; i < kStepCount; ++i) {
    state = state * 1103515245U + 12345U;
    blocks[i] = malloc(MIB(1) + (state >> 16) % 256 * KIB(4));
    CHECK(blocks[i] != NULL);
    *(char*)blocks[i] = 1;
  }
  for (unsigned i = 0; i < kStepCount; ++i)
    free(blocks[i]);
}

// Repeats it for so many seconds, or until most of what is kept is in huge pages.
static int gathered_after(unsigned seconds, void (*repeated)(void)) {
  for (unsigned i = 0; i < seconds * 100; ++i) {
    repeated();
    usleep(10000);
    if (i % 20 == 0 && small_huge() >= MIB(12) && weights_huge() >= MIB(8))
      return 1;
  }
  return 0;
}

static void gathered(void (*repeated)(void)) {
  make();
  const int expected = serving_expected() && on_glibc();
  const int all = gathered_after(expected ? kPatience * slower() : kWatched, repeated);
  check();
  CHECK(all || !expected);
}

static void gathered_with_a_plan(void) {
  gathered(iterate);
}

static void gathered_without(void) {
  gathered(improvise);
}

static void shared(void) {
  int ends[2];
  make();
  CHECK(pipe(ends) == 0);
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    char byte;
    close(ends[1]);
    _exit(read(ends[0], &byte, 1) == 0 ? 0 : 1);
  }
  gathered_after(kWatched, iterate);
  CHECK(small_huge() <= MIB(4));  // where the loop and what the fork's own handlers write
  close(ends[1]);
  ends_well_within(child, 20);
  check();
}

static void locked(void) {
  make();
  if (mlock(weights[0], weight_bytes(0)) != 0)
    return;
  gathered_after(kWatched, iterate);
  CHECK(small_huge() == 0);
  check();
}

// Why this machine makes no huge pages so; NULL if it does.
static const char* why_not(void) {
  char line[64] = "";
  FILE* file = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "r");
  if (file == NULL)
    return "the system's rules for huge pages cannot be read";
  CHECK(fgets(line, sizeof line, file) != NULL);
  fclose(file);
  if (strstr(line, "[madvise]") == NULL)
    return "this system does not make huge pages on request";
  char* area = mmap(NULL, MIB(34), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(area != MAP_FAILED);
  char* start = area + (MIB(2) - (uintptr_t)area % MIB(2)) % MIB(2);
  memset(start, 1, MIB(32));  // as much as is to be gathered
  const int error = madvise(start, MIB(32), MADV_COLLAPSE) == 0 ? 0 : errno;
  munmap(area, MIB(34));
  if (error == EINVAL)
    return "this kernel does not make huge pages of what is there (Linux 6.1)";
  return error != 0 ? "this system has no memory for huge pages" : NULL;
}

static void* nothing(void* argument) {
  return argument;
}

static pid_t apart(void (*run)(void)) {
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    // The library gives a program that has no thread a first one only for more than is kept here.
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, nothing, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    run();
    _exit(0);
  }
  return child;
}

int main(void) {
  const char* why = why_not();
  if (why != NULL) {
    printf("skipped: %s\n", why);
    return 77;
  }
  static void (*const kRuns[])(void) = {gathered_with_a_plan, gathered_without, shared, locked};
  enum { kCount = sizeof kRuns / sizeof kRuns[0] };
  pid_t children[kCount];
  for (unsigned i = 0; i < kCount; ++i)
    children[i] = apart(kRuns[i]);
  for (unsigned i = 0; i < kCount; ++i)
    ends_well_within(children[i], 2 * kPatience);
  printf("ok\n");
  return 0;
}
