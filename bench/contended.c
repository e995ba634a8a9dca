// Threads that allocate and free at the same time, on whatever allocator is loaded: pairs a second, page faults, memory.
//
//   contended PATTERN THREADS SECONDS [ALIVE]
//
//   pool   each thread replaces one of eight blocks of random sizes, 64 KiB to 1 MiB: no order that repeats
//   slab   each thread repeats the same 24 blocks of 64 KiB to 1 MiB: an order that repeats exactly
//   cross  as pool, but most blocks are freed by another thread
//   alive  as pool, with ALIVE blocks in all, of each of which two pages are written
//   small  blocks of 16 to 40 KiB, every fourth freed by another thread
//
// Else one byte of every page of a block is written. The first 60 % of the time, while allocators learn, are not counted. Prints one line of JSON.
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

enum { kMostThreads = 256, kHeld = 8, kPeriod = 24, kLag = 3, kPage = 4096 };

static const double kLearning = 0.6;

struct Worker {
  _Alignas(128) _Atomic uint64_t pairs;
  uint64_t random;
  pthread_t thread;
};

static struct Worker workers[kMostThreads];
static _Atomic(char*) exchanged[kMostThreads * kHeld];
static unsigned threads;
static unsigned alive_blocks;
static atomic_bool over;

static uint64_t draw(struct Worker* worker) {
  uint64_t x = worker->random;
  x ^= x << 13;
  x ^= x >> 7;
  x ^= x << 17;
  return worker->random = x;
}

static char* get(size_t bytes) {
  char* block = malloc(bytes);
  if (block == NULL) {
    fputs("contended: no memory\n", stderr);
    exit(1);
  }
  return block;
}

static char* take(size_t bytes) {
  char* block = get(bytes);
  for (size_t at = 0; at < bytes; at += kPage) {
    ((volatile char*)block)[at] = 1;
  }
  return block;
}

static size_t large(struct Worker* worker) {
  const uint64_t random = draw(worker);
  const size_t base = (size_t)65536 << (random & 3);
  return base + (random >> 8) % base;
}

static void count_pair(struct Worker* worker) {
  atomic_store_explicit(&worker->pairs,
                        atomic_load_explicit(&worker->pairs, memory_order_relaxed) + 1,
                        memory_order_relaxed);
}

static void replace(struct Worker* worker, char** held, size_t bytes) {
  char** place = &held[draw(worker) % kHeld];
  free(*place);
  *place = take(bytes);
  count_pair(worker);
}

static void hand_over(struct Worker* worker, size_t bytes) {
  char* block = take(bytes);
  free(atomic_exchange(&exchanged[draw(worker) % (threads * kHeld)], block));
  count_pair(worker);
}

static void* pool(void* argument) {
  struct Worker* worker = argument;
  char* held[kHeld] = {0};
  while (!atomic_load_explicit(&over, memory_order_relaxed)) {
    replace(worker, held, large(worker));
  }
  for (int i = 0; i < kHeld; ++i) {
    free(held[i]);
  }
  return NULL;
}

static void* alive(void* argument) {
  struct Worker* worker = argument;
  const size_t count = alive_blocks / threads > 0 ? alive_blocks / threads : 1;
  char** held = (char**)calloc(count, sizeof *held);
  for (size_t i = 0; held != NULL && i < count; ++i) {
    held[i] = get(large(worker));
  }
  while (held != NULL && !atomic_load_explicit(&over, memory_order_relaxed)) {
    char** place = &held[draw(worker) % count];
    const size_t bytes = large(worker);
    free(*place);
    *place = get(bytes);
    ((volatile char*)*place)[0] = 1;
    ((volatile char*)*place)[bytes / 2] = 1;
    count_pair(worker);
  }
  return NULL;
}

static void* slab(void* argument) {
  struct Worker* worker = argument;
  char* held[kPeriod + kLag];
  while (!atomic_load_explicit(&over, memory_order_relaxed)) {
    for (int i = 0; i < kPeriod + kLag; ++i) {
      if (i < kPeriod) {
        held[i] = take(((size_t)65536 << (i * 7 % 5)) - (size_t)i * kPage / 2 + kPage * 12);
        count_pair(worker);
      }
      if (i >= kLag) {
        free(held[i - kLag]);
      }
    }
  }
  return NULL;
}

static void* cross(void* argument) {
  struct Worker* worker = argument;
  while (!atomic_load_explicit(&over, memory_order_relaxed)) {
    hand_over(worker, large(worker));
  }
  return NULL;
}

static void* small(void* argument) {
  struct Worker* worker = argument;
  char* held[kHeld] = {0};
  for (unsigned i = 0; !atomic_load_explicit(&over, memory_order_relaxed); ++i) {
    const size_t bytes = (16U << 10) + draw(worker) % (24U << 10);
    if (i % 4 == 0) {
      hand_over(worker, bytes);
    } else {
      replace(worker, held, bytes);
    }
  }
  for (int i = 0; i < kHeld; ++i) {
    free(held[i]);
  }
  return NULL;
}

struct Look {
  double seconds, user, system;
  uint64_t pairs;
  long faults;
};

static double in_seconds(struct timeval time) {
  return (double)time.tv_sec + (double)time.tv_usec / 1e6;
}

static struct Look look(void) {
  struct rusage used;
  struct timespec now;
  getrusage(RUSAGE_SELF, &used);
  clock_gettime(CLOCK_MONOTONIC, &now);
  struct Look found = {.seconds = (double)now.tv_sec + (double)now.tv_nsec / 1e9,
                       .user = in_seconds(used.ru_utime),
                       .system = in_seconds(used.ru_stime),
                       .faults = used.ru_minflt};
  for (unsigned i = 0; i < threads; ++i) {
    found.pairs += atomic_load_explicit(&workers[i].pairs, memory_order_relaxed);
  }
  return found;
}

static void rest(double seconds) {
  const struct timespec time = {.tv_sec = (time_t)seconds,
                                .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};
  nanosleep(&time, NULL);
}

// KiB; the line "NAME:" of this process' status.
static long status(const char* name) {
  char line[256];
  long value = 0;
  FILE* file = fopen("/proc/self/status", "re");
  while (file != NULL && fgets(line, sizeof line, file) != NULL) {
    if (strncmp(line, name, strlen(name)) == 0) {
      value = strtol(line + strlen(name), NULL, 10);
    }
  }
  if (file != NULL) {
    fclose(file);
  }
  return value;
}

int main(int argc, char** argv) {
  static const struct {
    const char* name;
    void* (*body)(void*);
  } patterns[] = {
      {"pool", pool}, {"slab", slab}, {"cross", cross}, {"alive", alive}, {"small", small}};
  void* (*body)(void*) = NULL;
  const int given = argc == 4 || argc == 5;
  for (size_t i = 0; given && i < sizeof patterns / sizeof *patterns; ++i) {
    body = strcmp(argv[1], patterns[i].name) == 0 ? patterns[i].body : body;
  }
  threads = given ? (unsigned)strtoul(argv[2], NULL, 10) : 0;
  const double seconds = given ? strtod(argv[3], NULL) : 0;
  alive_blocks = argc == 5 ? (unsigned)strtoul(argv[4], NULL, 10) : kHeld;
  if (body == NULL || threads < 1 || threads > kMostThreads || !(seconds > 0)) {
    fputs("usage: contended pool|slab|cross|alive|small THREADS SECONDS [ALIVE]\n", stderr);
    return 2;
  }
  for (unsigned i = 0; i < threads; ++i) {
    workers[i].random = 0x9E3779B97F4A7C15U * (i + 1);
    if (pthread_create(&workers[i].thread, NULL, body, &workers[i]) != 0) {
      fputs("contended: no thread\n", stderr);
      return 1;
    }
  }
  rest(seconds * kLearning);
  const struct Look before = look();
  rest(seconds * (1 - kLearning));
  const struct Look after = look();
  const long resident = status("VmRSS:");
  const long peak = status("VmHWM:");
  atomic_store(&over, 1);
  for (unsigned i = 0; i < threads; ++i) {
    pthread_join(workers[i].thread, NULL);
  }
  const uint64_t pairs = after.pairs - before.pairs;
  printf(
      "{\"pairs\": %llu, \"seconds\": %.6f, \"faults\": %ld, \"user_ms\": %.3f, \"system_ms\": "
      "%.3f, "
      "\"rss_kib\": %ld, \"peak_kib\": %ld}\n",
      (unsigned long long)pairs, after.seconds - before.seconds, after.faults - before.faults,
      (after.user - before.user) * 1e3, (after.system - before.system) * 1e3, resident, peak);
  return 0;
}
