// A limit on data that the program's own blocks fit under, whatever it did before: after a loop has
// been served, blocks of another size, then a loop in a thread, then the first loop once more. What
// an allocator holds and does not use must not be what they lack.
#include <sys/resource.h>

#include "room.h"
#include "support.h"

enum { kLoop = 16, kIterations = 40, kOther = 104 };  // blocks

// Bytes that all sizes are multiples of: as many as make the limit the first that is met, and not
// the machine's memory.
static size_t unit = MIB(1);

static size_t data_in_use(void) {
  long pages[6] = {0};
  FILE* file = fopen("/proc/self/statm", "r");
  CHECK(file != NULL);
  for (int i = 0; i < 6; ++i)
    CHECK(fscanf(file, "%ld", &pages[i]) == 1);
  fclose(file);
  return (size_t)pages[5] * (size_t)sysconf(_SC_PAGESIZE);
}

// Blocks of other sizes each time, so that no plan fits another's loop.
static void loop(size_t each) {
  char* blocks[kLoop];
  for (unsigned round = 0; round < kIterations; ++round) {
    for (unsigned i = 0; i < kLoop; ++i) {
      blocks[i] = malloc(each + unit / 64 * i);
      CHECK(blocks[i] != NULL);
      blocks[i][0] = blocks[i][each - 1] = (char)i;
    }
    for (unsigned i = 0; i < kLoop; ++i) {
      CHECK(blocks[i][0] == (char)i && blocks[i][each - 1] == (char)i);
      free(blocks[i]);
    }
  }
}

static void* loop_in_thread(void* nothing) {
  loop(6 * unit);
  return nothing;
}

static void other_blocks(size_t each, int aligned) {
  static void* blocks[kOther];
  for (unsigned i = 0; i < kOther; ++i) {
    if (aligned)
      CHECK(posix_memalign(&blocks[i], 64, each) == 0);
    else
      blocks[i] = i % 2 == 0 ? malloc(each) : calloc(each, 1);
  }
  fill_check_free(blocks, kOther, each);
}

// Blocks that no plan and no pool serves.
static void many_small(size_t all) {
  enum { kEach = 32 << 10 };
  char* newest = NULL;
  for (size_t sum = 0; sum < all; sum += kEach) {
    char* block = malloc(kEach);
    CHECK(block != NULL);
    memcpy(block, &newest, sizeof newest);
    newest = block;
  }
  while (newest != NULL) {
    char* block = newest;
    memcpy(&newest, block, sizeof newest);
    free(block);
  }
}

int main(void) {
  pthread_t thread;
  if (!on_glibc()) {
    puts("skipped: another allocator's own reserve is what such a limit meets");
    return 77;
  }
  CHECK(data_in_use() < MIB(64));
  // What lies free between blocks counts, too.
  const size_t units = 180;
  while (!has_memory(data_in_use() + units * unit, KIB(4)))
    unit /= 2;
  const size_t most = data_in_use() + units * unit;
  const struct rlimit both = {most, most};
  CHECK(setrlimit(RLIMIT_DATA, &both) == 0);
  loop(5 * unit);
  other_blocks(unit, 0);
  CHECK(pthread_create(&thread, NULL, loop_in_thread, NULL) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
  other_blocks(unit + unit / 10, 1);
  loop(7 * unit);
  many_small(110 * unit);
  return 0;
}
