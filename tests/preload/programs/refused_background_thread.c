// A process that may start no thread when the library wants its own: as with the system's
// allocator, nothing fails, and when threads are to be had again, the library has its one. Needs
// root, to become a user whose number of processes the kernel limits.
#define _GNU_SOURCE
#include <malloc.h>
#include <sys/resource.h>

#include "support.h"

enum { kBlocks = 100, kNobody = 65534 };

// More than 64 MiB at once that are written, which are worth a thread that gives them back.
static void take_and_free(void) {
  static void* blocks[kBlocks];
  for (unsigned i = 0; i < kBlocks; ++i) {
    blocks[i] = malloc(MIB(1));
    CHECK(blocks[i] != NULL);
    fill(blocks[i], MIB(1), i);
  }
  for (unsigned i = 0; i < kBlocks; ++i) {
    CHECK(filled(blocks[i], MIB(1), i));
    free(blocks[i]);
  }
}

int main(void) {
  if (geteuid() != 0) {
    printf("skipped: needs root\n");
    return 0;
  }
  struct rlimit before;
  CHECK(setresuid(kNobody, kNobody, kNobody) == 0);
  CHECK(getrlimit(RLIMIT_NPROC, &before) == 0);
  const struct rlimit none = {0, before.rlim_max};
  CHECK(setrlimit(RLIMIT_NPROC, &none) == 0);
  take_and_free();
  CHECK(count_threads() == 1);
  CHECK(setrlimit(RLIMIT_NPROC, &before) == 0);
  for (int i = 0; i < 20; ++i)
    take_and_free();
  if (serving_expected())
    CHECK(count_threads() >= (memomalloc_version ? 2 : 1));
  printf("a refused thread ok\n");
  return 0;
}
