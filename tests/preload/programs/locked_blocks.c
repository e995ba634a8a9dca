// A program that locks a page of one block and frees it locked: all other memory comes back as it
// would without.
#define _GNU_SOURCE
#include <malloc.h>
#include <sys/mman.h>

#include "support.h"

enum { kBlocks = 300, kMostResident = 40 };

static long resident_mib(void) {
  long pages[2] = {0, 0};
  FILE* file = fopen("/proc/self/statm", "r");
  CHECK(file != NULL);
  CHECK(fscanf(file, "%ld %ld", &pages[0], &pages[1]) == 2);
  fclose(file);
  return pages[1] * sysconf(_SC_PAGESIZE) >> 20;
}

// 300 MiB, the first block locked in part or as a whole; what the process still holds afterwards.
static long hold_and_free(size_t locked) {
  void* blocks[kBlocks];
  const long before = resident_mib();
  for (unsigned i = 0; i < kBlocks; ++i) {
    blocks[i] = malloc(MIB(1) + KIB(4) * (i % 5));
    CHECK(blocks[i] != NULL);
    memset(blocks[i], 1, MIB(1));
  }
  CHECK(resident_mib() - before >= kBlocks - 20);
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  char* start = (char*)(((uintptr_t)blocks[0] + page - 1) / page * page);
  const int held = mlock(start, locked) == 0;
  for (unsigned i = 0; i < kBlocks; ++i)
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
  const size_t sizes[] = {MIB(1) - KIB(64), KIB(64)};
  for (unsigned i = 0; i < 2; ++i) {
    const long left = hold_and_free(sizes[i]);
    if (on_glibc() && left > kMostResident) {
      dprintf(STDERR_FILENO, "%ld MiB are still there\n", left);
      return 1;
    }
  }
  printf("given back\n");
  return 0;
}
