// Shared by the test programs, C and C++: checks that name their line, the library's weak
// interface, the way into the serving phase. Without the library each runs as well: the same checks
// hold with the system's allocator.
#pragma once

#include <dirent.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef __cplusplus
extern "C" {
#endif
extern char** environ;
extern const char* memomalloc_version(void) __attribute__((weak));
extern size_t memomalloc_stats_json(char* buffer, size_t size) __attribute__((weak));
extern void memomalloc_release(void) __attribute__((weak));
#ifdef __cplusplus
}
#endif

#define KIB(n) ((size_t)(n) << 10)
#define MIB(n) ((size_t)(n) << 20)

// Ends the process with the place and the text of the condition that does not hold. Allocates
// nothing.
#define CHECK(condition)                                                                    \
  do {                                                                                      \
    if (!(condition)) {                                                                     \
      dprintf(STDERR_FILENO, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition); \
      _exit(1);                                                                             \
    }                                                                                       \
  } while (0)

// Of this process, the library's own among them.
static inline unsigned count_threads(void) {
  unsigned count = 0;
  DIR* tasks = opendir("/proc/self/task");
  CHECK(tasks != NULL);
  for (struct dirent* entry = readdir(tasks); entry != NULL; entry = readdir(tasks))
    count += entry->d_name[0] != '.';
  closedir(tasks);
  return count;
}

// The library's statistics; there is a library.
enum { kStatsBytes = 8192 };
static inline void read_stats(char json[kStatsBytes]) {
  memset(json, 0, kStatsBytes);
  memomalloc_stats_json(json, kStatsBytes);
}

// A counter of the library's statistics by name, 0 without the library.
static inline long counter(const char* name) {
  if (!memomalloc_stats_json)
    return 0;
  char json[kStatsBytes];
  read_stats(json);
  char key[64];
  snprintf(key, sizeof key, "\"%s\":", name);
  const char* found = strstr(json, key);
  return found ? strtol(found + strlen(key), NULL, 10) : 0;
}

// True when the runner says that blocks must come from a slab once a sequence has repeated often
// enough.
static inline int serving_expected(void) {
  return getenv("EXPECT_SERVING") != NULL;
}

// For the end of a program that is meant to be served: it must not pass because nothing was planned.
static inline void check_served(void) {
  CHECK(!serving_expected() || counter("planned_allocations") > 0);
}

// True when glibc's malloc is what our blocks are compared with, and not another allocator.
static inline int on_glibc(void) {
  const char* next = getenv("NEXT_ALLOCATOR");
  return next == NULL || strcmp(next, "glibc") == 0;
}

// For programs whose handlers allocate in the middle of a call, or jump out of it, which would leave the
// books of glibc's heap half written. From now on glibc takes each large block from the kernel (and not
// from the top of the heap, where that is large enough, whatever the threshold says), and has no end
// of the heap to give back, which it does in two steps.
static inline void keep_off_the_heap(void) {
  CHECK(mallopt(M_MMAP_THRESHOLD, (int)KIB(64)) == 1);
  CHECK(mallopt(M_TOP_PAD, 0) == 1);
  malloc_trim(0);
}

// A number of times from the environment; 1 where there is none.
static inline unsigned times_told(const char* variable) {
  const char* told = getenv(variable);
  const int times = told == NULL ? 1 : atoi(told);
  return times < 1 ? 1 : (unsigned)times;
}
// About how many times slower than a usual machine this one is, such as an emulated one.
static inline unsigned slower(void) {
  return times_told("SLOWER");
}

// `usual` repetitions for what only comes about by chance, fewer on a slower machine, or where they
// are to be FEWER in the environment times fewer, but `least`.
static inline unsigned repeated(unsigned usual, unsigned least) {
  const unsigned fewer = usual / slower() / times_told("FEWER");
  return fewer < least ? least : fewer;
}

// Ends the process where it has not come to its end after so long on a usual machine.
static inline void end_after(unsigned seconds) {
  alarm(seconds * slower());
}

// Waits for a child.
static inline void ends_well(pid_t child) {
  int status = 0;
  CHECK(child > 0 && waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

// Waits for a child that may hold every signal but the last one; it has this long on a usual machine.
static inline void ends_well_within(pid_t child, unsigned seconds) {
  int status = 0;
  pid_t ended = 0;
  CHECK(child > 0);
  for (unsigned i = 0; i < seconds * 100 * slower() && ended == 0; ++i) {
    usleep(10000);
    ended = waitpid(child, &status, WNOHANG);
  }
  if (ended == 0)
    kill(child, SIGKILL);
  CHECK(ended == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

// Writes a pattern made from `id` over the whole block.
static inline void fill(void* block, size_t size, unsigned id) {
  memset(block, (int)(unsigned char)(id * 37u + 11u), size);
}

// True if bytes [0, size) of the block still hold the pattern of `id`.
static inline int filled(const void* block, size_t size, unsigned id) {
  const unsigned char* bytes = (const unsigned char*)block;
  const unsigned char expected = (unsigned char)(id * 37u + 11u);
  return size == 0 || (bytes[0] == expected && memcmp(bytes, bytes + 1, size - 1) == 0);
}

// Writes `number` blocks of `each` bytes, all before the first is checked, and frees them.
static inline void fill_check_free(void* const* blocks, unsigned number, size_t each) {
  for (unsigned i = 0; i < number; ++i) {
    CHECK(blocks[i] != NULL);
    fill(blocks[i], each, i);
  }
  for (unsigned i = 0; i < number; ++i) {
    CHECK(filled(blocks[i], each, i));
    free(blocks[i]);
  }
}

static inline int all_zero(const void* block, size_t size) {
  const unsigned char* bytes = (const unsigned char*)block;
  return size == 0 || (bytes[0] == 0 && memcmp(bytes, bytes + 1, size - 1) == 0);
}

// Starts this program once more, with these arguments (two may be null), and tells how it ended.
// For another processor's programs RUN_UNDER holds the emulator's command line, in words; the
// emulator gets the guest's preload from there, and must not load it itself.
static inline int run_again(const char* first, const char* second, const char* third) {
  char words[4096], self[1024];
  char* arguments[24];
  unsigned count = 0;
  const char* emulator = getenv("RUN_UNDER");
  const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
  CHECK(length > 0);
  self[length] = 0;
  if (emulator != NULL) {
    CHECK(strlen(emulator) < sizeof words);
    strcpy(words, emulator);
    for (char* word = strtok(words, " "); word != NULL && count < 16; word = strtok(NULL, " "))
      arguments[count++] = word;
    unsetenv("LD_PRELOAD");
  }
  arguments[count++] = self;
  arguments[count++] = (char*)first;
  arguments[count++] = (char*)second;
  arguments[count++] = (char*)third;
  arguments[count] = NULL;
  pid_t child = -1;
  int status = -1;
  CHECK(posix_spawn(&child, arguments[0], NULL, NULL, arguments, environ) == 0);
  CHECK(waitpid(child, &status, 0) == child);
  return status;
}

// A part of a program that runs in a process of its own, named by the only argument.
struct part {
  const char* name;
  void (*run)(void);
};

// What main() returns: runs the part that `words` name, or each one in a process of its own, and
// says which went well.
static inline int run_parts(int count, char** words, const struct part* parts, size_t number) {
  for (size_t i = 0; i < number; ++i) {
    if (count == 2 && strcmp(words[1], parts[i].name) == 0) {
      parts[i].run();
      return 0;
    }
    if (count == 2)
      continue;
    const int status = run_again(parts[i].name, NULL, NULL);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
      return 1;
    printf("%s ok\n", parts[i].name);
  }
  return count == 2 ? 2 : 0;
}

// One case of a program. It is repeated as an iteration of its own thread would be: the first
// repetitions are recorded, the last must take at least `served` of their blocks from the slab.
struct test_case {
  const char* name;
  void (*run)(void);
  long served;
};
#define CASE(function, served) {#function, function, served}

enum { kRepetitions = 24, kAround = 8 };

// Large blocks around the case make its sequence long enough to be learned. Their sizes are the
// case's own, so that no plan of an earlier case fits by halves.
static inline size_t around_size(unsigned i, unsigned number) {
  return KIB(400) - KIB(40) * i + KIB(4) * number;
}

// The blocks that the case itself got from the slab.
static inline long repeat_once(void (*run)(void), unsigned number) {
  void* around[kAround];
  for (unsigned i = 0; i < kAround; ++i) {
    around[i] = malloc(around_size(i, number));
    CHECK(around[i] != NULL);
    fill(around[i], around_size(i, number), i);
  }
  const long before = counter("planned_allocations");
  run();
  const long served = counter("planned_allocations") - before;
  for (unsigned i = 0; i < kAround; ++i) {
    CHECK(filled(around[i], around_size(i, number), i));
    free(around[i]);
  }
  return served;
}

static unsigned case_number;  // changes while no case runs

static inline void* repeat_case(void* argument) {
  const struct test_case* test = (const struct test_case*)argument;
  long served = 0;
  for (int i = 0; i < kRepetitions; ++i)
    served = repeat_once(test->run, case_number);
  if (serving_expected() && served < test->served) {
    dprintf(STDERR_FILENO, "%s: %ld blocks served in the last repetition, at least %ld expected\n",
            test->name, served, test->served);
    _exit(1);
  }
  return NULL;
}

// Runs every case in a thread of its own, because sequences are learned per thread.
static inline int run_cases(const struct test_case* cases, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    pthread_t thread;
    case_number = (unsigned)i + 1;
    CHECK(pthread_create(&thread, NULL, repeat_case, (void*)&cases[i]) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    printf("%s ok\n", cases[i].name);
  }
  return 0;
}
#define RUN_CASES(cases) run_cases(cases, sizeof(cases) / sizeof((cases)[0]))

// A fixed iteration for programs that need a slab with known contents: kStepCount blocks, all alive
// at once, freed in order of arrival. learn_steps() repeats it until it must be known.
enum { kStepCount = 10 };
static inline size_t step_size(unsigned i) {
  return KIB(96) + KIB(16) * ((i * 7u) % 11u);
}

static inline void take_steps(void* blocks[kStepCount]) {
  for (unsigned i = 0; i < kStepCount; ++i) {
    blocks[i] = malloc(step_size(i));
    CHECK(blocks[i] != NULL);
    fill(blocks[i], step_size(i), i);
  }
}

static inline void free_steps(void* blocks[kStepCount]) {
  for (unsigned i = 0; i < kStepCount; ++i) {
    CHECK(filled(blocks[i], step_size(i), i));
    free(blocks[i]);
  }
}

static inline void learn_steps(void) {
  void* blocks[kStepCount];
  for (int i = 0; i < kRepetitions; ++i) {
    take_steps(blocks);
    free_steps(blocks);
  }
}

// An iteration of hundreds of blocks with lifetimes in no order, which takes a planner all the time
// that it may have. Each seed makes its own.
static inline void work_in_no_order(unsigned seed) {
  enum { kBlocks = 400, kAlive = 64 };
  void* alive[kAlive] = {0};
  unsigned random = seed;
  for (unsigned i = 0; i < kBlocks; ++i) {
    random = random * 1664525u + 1013904223u;
    void** place = &alive[random >> 26];
    free(*place);
    *place = malloc(KIB(64) + (random >> 8) % KIB(64));
    CHECK(*place != NULL);
    *(unsigned char*)*place = 1;
  }
  for (unsigned i = 0; i < kAlive; ++i)
    free(alive[i]);
}

// Like take_steps, and every block must come from the slab where serving is expected. On a slower
// machine whoever holds a lock may lose its processor for longer than a call waits, and a loop that
// was disturbed by it has to be learned for longer.
static inline void take_served_steps(void* blocks[kStepCount]) {
  for (unsigned left = slower() - 1;; --left) {
    const long before = counter("planned_allocations");
    take_steps(blocks);
    const long served = counter("planned_allocations") - before;
    if (!serving_expected() || served >= kStepCount)
      return;
    if (left == 0) {  // why, is in the library's counters
      char json[kStatsBytes];
      read_stats(json);
      dprintf(STDERR_FILENO, "%ld of %d steps were served: %s\n", served, kStepCount, json);
    }
    CHECK(served >= kStepCount || left > 0);
    free_steps(blocks);
    learn_steps();
  }
}
