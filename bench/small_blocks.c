// Programs that take small blocks only, whose calls the library passes on: what its entry points cost, counted in instructions
// (bench/passing.py) or timed. Each does COUNT rounds and prints the peak of resident memory, in KiB.
//
//   small_blocks PATTERN COUNT [THREADS]
//
//   pair       malloc and free of 64 bytes
//   calloc     the same with calloc
//   realloc    a block of 24 bytes that grows to 120 in four steps
//   memalign   posix_memalign of 64 bytes at 64
//   batches    16 sizes; some hundred blocks of each taken, then freed in order, in reverse, and by turns
//   slots      blocks of 16 to 2,000 bytes, short ones more often, replaced in random places; their bytes are written
//   sets       small sets that are made, grown, joined and freed, as a logic minimizer does
//   handed     threads that replace blocks in random places, and end and hand all to a new thread
//   threads    threads that replace blocks of 4 to 32,768 bytes, half of them freed for a while
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kSlots = 1024, kBatch = 400, kSizes = 16, kSets = 64, kMostThreads = 64 };

struct Work {
  unsigned long rounds;
  uint64_t random;
  char* slots[kSlots];
};

static uint64_t draw(struct Work* work) {
  uint64_t x = work->random;
  x ^= x << 13;
  x ^= x >> 7;
  x ^= x << 17;
  return work->random = x;
}

static void* checked(void* block) {
  if (block == NULL) {
    fputs("small_blocks: no memory\n", stderr);
    exit(1);
  }
  return block;
}

static void* take(size_t bytes) {
  return checked(malloc(bytes));
}

static void pair(struct Work* work) {
  for (unsigned long i = 0; i < work->rounds; ++i) {
    free(take(64));
  }
}

static void zeroed(struct Work* work) {
  for (unsigned long i = 0; i < work->rounds; ++i) {
    free(checked(calloc(1, 64)));
  }
}

static void grown(struct Work* work) {
  for (unsigned long i = 0; i < work->rounds; ++i) {
    void* block = take(24);
    for (size_t bytes = 48; bytes <= 120; bytes += 24) {
      block = checked(realloc(block, bytes));
    }
    free(block);
  }
}

static void aligned(struct Work* work) {
  for (unsigned long i = 0; i < work->rounds; ++i) {
    void* block = NULL;
    if (posix_memalign(&block, 64, 64) != 0) {
      exit(1);
    }
    free(block);
  }
}

static void batches(struct Work* work) {
  char* blocks[kBatch];
  for (unsigned long i = 0; i < work->rounds; ++i) {
    const size_t bytes = 8 + 16 * (i % kSizes);
    for (int at = 0; at < kBatch; ++at) {
      blocks[at] = take(bytes);
    }
    for (int at = 0; at < kBatch; ++at) {
      const int reverse = kBatch - 1 - at;
      const int by_turns = at < kBatch / 2 ? 2 * at : 2 * (at - kBatch / 2) + 1;
      free(blocks[i % 3 == 0 ? at : i % 3 == 1 ? reverse : by_turns]);
    }
  }
}

static void release(struct Work* work) {
  for (int at = 0; at < kSlots; ++at) {
    free(work->slots[at]);
    work->slots[at] = NULL;
  }
}

static void slots(struct Work* work) {
  for (unsigned long i = 0; i < work->rounds; ++i) {
    const uint64_t random = draw(work);
    char** slot = &work->slots[random % kSlots];
    const size_t bytes = 16 + ((random >> 10) % 1984 >> (random >> 24) % 7);
    free(*slot);
    *slot = take(bytes);
    memset(*slot, 1, bytes);
  }
}

struct Set {
  unsigned used, room;
  uint32_t* words;
};

static struct Set* new_set(unsigned room) {
  struct Set* set = take(sizeof *set);
  *set = (struct Set){.used = 0, .room = room, .words = take(room * sizeof(uint32_t))};
  return set;
}

static void add(struct Set* set, uint32_t word) {
  if (set->used == set->room) {
    set->room *= 2;
    set->words = checked(realloc(set->words, set->room * sizeof(uint32_t)));
  }
  set->words[set->used++] = word;
}

static void free_set(struct Set* set) {
  free(set->words);
  free(set);
}

static void sets(struct Work* work) {
  struct Set* all[kSets] = {0};
  for (unsigned long i = 0; i < work->rounds; ++i) {
    const uint64_t random = draw(work);
    struct Set** first = &all[random % kSets];
    struct Set* second = all[(random >> 8) % kSets];
    struct Set* joined = new_set(4);
    for (unsigned at = 0; *first != NULL && at < (*first)->used; ++at) {
      add(joined, (*first)->words[at] ^ (uint32_t)random);
    }
    for (unsigned at = 0; second != NULL && at < second->used && joined->used < 48; at += 2) {
      add(joined, second->words[at]);
    }
    add(joined, (uint32_t)random);
    if (*first != NULL) {
      free_set(*first);
    }
    *first = joined->used < 48 ? joined : NULL;
    if (*first == NULL) {
      free_set(joined);
    }
  }
  for (int at = 0; at < kSets; ++at) {
    if (all[at] != NULL) {
      free_set(all[at]);
    }
  }
}

static void* hand_on(void* argument) {
  struct Work* work = argument;
  for (unsigned long i = 0; i < work->rounds; ++i) {
    const uint64_t random = draw(work);
    char** slot = &work->slots[random % kSlots];
    free(*slot);
    *slot = take(10 + (random >> 10) % 490);
    **slot = 1;
  }
  return NULL;
}

// Its slots go through eight threads, one after another.
static void handed(struct Work* work) {
  struct Work* part = take(sizeof *part);
  *part = *work;
  part->rounds = work->rounds / 8;
  for (int i = 0; i < 8; ++i) {
    pthread_t next;
    if (pthread_create(&next, NULL, hand_on, part) != 0 || pthread_join(next, NULL) != 0) {
      exit(1);
    }
  }
  *work = *part;
  free(part);
}

static void in_threads(struct Work* work) {
  for (unsigned long i = 0; i < work->rounds; ++i) {
    const uint64_t random = draw(work);
    char** slot = &work->slots[random % kSlots];
    if (*slot != NULL) {
      free(*slot);
      *slot = NULL;
    } else {
      *slot = take(((size_t)4 << (random >> 10) % 13) + (random >> 24) % 4);
    }
  }
}

// Of this program alone: getrusage counts what the process held before exec.
static unsigned long peak_kib(void) {
  FILE* file = fopen("/proc/self/status", "r");
  char line[128];
  unsigned long kib = 0;
  while (file != NULL && kib == 0 && fgets(line, sizeof line, file) != NULL) {
    kib = strncmp(line, "VmHWM:", 6) == 0 ? strtoul(line + 6, NULL, 10) : 0;
  }
  if (file != NULL) {
    fclose(file);
  }
  return kib;
}

static void (*body)(struct Work*);

static void* run(void* work) {
  body(work);
  release(work);
  return NULL;
}

int main(int argc, char** argv) {
  static const struct {
    const char* name;
    void (*body)(struct Work*);
  } patterns[] = {{"pair", pair},        {"calloc", zeroed},   {"realloc", grown},
                  {"memalign", aligned}, {"batches", batches}, {"slots", slots},
                  {"sets", sets},        {"handed", handed},   {"threads", in_threads}};
  for (size_t i = 0; argc >= 3 && i < sizeof patterns / sizeof *patterns; ++i) {
    body = strcmp(argv[1], patterns[i].name) == 0 ? patterns[i].body : body;
  }
  const unsigned threads = argc == 4 ? (unsigned)strtoul(argv[3], NULL, 10) : 1;
  if (body == NULL || argc > 4 || threads < 1 || threads > kMostThreads) {
    fputs("usage: small_blocks PATTERN COUNT [THREADS]\n", stderr);
    return 2;
  }
  static struct Work works[kMostThreads];
  pthread_t started[kMostThreads];
  for (unsigned i = 0; i < threads; ++i) {
    works[i].rounds = strtoul(argv[2], NULL, 10);
    works[i].random = 0x9E3779B97F4A7C15U * (i + 1);
  }
  for (unsigned i = 1; i < threads; ++i) {
    if (pthread_create(&started[i], NULL, run, &works[i]) != 0) {
      fputs("small_blocks: no thread\n", stderr);
      return 1;
    }
  }
  run(&works[0]);
  for (unsigned i = 1; i < threads; ++i) {
    pthread_join(started[i], NULL);
  }
  printf("%lu\n", peak_kib());
  return 0;
}
