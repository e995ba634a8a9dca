// A program that locks a page of one block and frees it locked: all other memory comes back as it
// would without.
#define _GNU_SOURCE
#include <malloc.h>
#include <sys/mman.h>

#include "room.h"
#include "support.h"

enum { kMaxBlocks = 300, kMaxResident = 40 };

// Fewer where there is no memory for them.
static unsigned block_count = kMaxBlocks;

static long resident_mib(void) {
  long pages[2] = {0, 0};
  FILE* file = fopen("/proc/self/statm", "r");
  CHECK(file != NULL);
  CHECK(fscanf(file, "%ld %ld", &pages[0], &pages[1]) == 2);
  fclose(file);
  return pages[1] * sysconf(_SC_PAGESIZE) >> 20;
}

// 300 MiB or less, the first block locked in part or as a whole; what the process still holds afterwards.
static long hold_and_free(size_t locked) {
  void* blocks[kMaxBlocks];
  const long before = resident_mib();
  for (unsigned i = 0; i < block_count; ++i) {
    blocks[i] = malloc(MIB(1) + KIB(4) * (i % 5));
    CHECK(blocks[i] != NULL);
    memset(blocks[i], 1, MIB(1));
  }
  CHECK(resident_mib() - before >= block_count - 20);
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  char* start = (char*)(((uintptr_t)blocks[0] + page - 1) / page * page);
  const int held = mlock(start, locked) == 0;
  for (unsigned i = 0; i < block_count; ++i)
    free(blocks[i]);
  malloc_trim(0);
  if (memomalloc_release)
    memomalloc_release();
  const long left = resident_mib() - before;
  // What malloc has given back to the system is not ours to unlock.
  if (held && memomalloc_release)
    munlock(start, locked);
  return left;
}

int main(void) {
  while (block_count > 2 * kMaxResident && !has_memory((MIB(1) + KIB(64)) * block_count, KIB(4)))
    block_count /= 2;
  const size_t sizes[] = {MIB(1) - KIB(64), KIB(64)};
  for (unsigned i = 0; i < 2; ++i) {
    const long left = hold_and_free(sizes[i]);
    if (on_glibc() && left > kMaxResident) {
      dprintf(STDERR_FILENO, "%ld MiB are still there\n", left);
      return 1;
    }
  }
  printf("given back\n");
  return 0;
}
