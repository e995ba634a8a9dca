// What programs do to the pages of their own blocks: madvise, mbind, mlock, mprotect; and kernels
// that read up to 128 bytes past the last byte of a block.
#define _GNU_SOURCE
#include <malloc.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "support.h"

// The whole pages inside a block, as a program finds them.
struct pages {
  char* start;
  size_t size;
};

static struct pages inner_pages(void* block, size_t size) {
  const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
  const uintptr_t start = ((uintptr_t)block + page - 1) / page * page;
  const uintptr_t end = ((uintptr_t)block + size) / page * page;
  CHECK(end > start);
  return (struct pages){(char*)start, end - start};
}

static void* take(size_t size, struct pages* pages) {
  void* block = malloc(size);
  CHECK(block != NULL);
  fill(block, size, 1);
  *pages = inner_pages(block, size);
  return block;
}

// numpy asks for huge pages on arrays of 4 MiB and more.
static void advice(void) {
  const int advices[] = {MADV_HUGEPAGE, MADV_WILLNEED, MADV_NOHUGEPAGE, MADV_SEQUENTIAL};
  struct pages pages;
  void* block = take(MIB(5), &pages);
  // The advice itself may be refused by a kernel built without huge pages; the contents must stay.
  for (unsigned i = 0; i < 4; ++i)
    madvise(pages.start, pages.size, advices[i]);
  CHECK(filled(block, MIB(5), 1));
  free(block);
}

static void discarded_pages_read_as_zero(void) {
  struct pages pages;
  void* block = take(KIB(600), &pages);
  CHECK(madvise(pages.start, pages.size, MADV_DONTNEED) == 0);
  CHECK(all_zero(pages.start, pages.size));
  fill(block, KIB(600), 2);
  CHECK(filled(block, KIB(600), 2));
  free(block);
  void* zeroed = calloc(1, KIB(600));
  CHECK(zeroed && all_zero(zeroed, KIB(600)));
  CHECK(madvise(inner_pages(zeroed, KIB(600)).start, KIB(64), MADV_FREE) == 0);
  free(zeroed);
}

static void locked_pages(void) {
  struct pages pages;
  void* block = take(KIB(128), &pages);
  if (mlock(pages.start, pages.size) == 0)
    CHECK(munlock(pages.start, pages.size) == 0);
  CHECK(filled(block, KIB(128), 1));
  free(block);
}

// Locked memory cannot be given back with MADV_DONTNEED: whoever counts on it for zeroes is wrong.
static void zeroes_while_everything_is_locked(void) {
  const int locked = mlockall(MCL_CURRENT | MCL_FUTURE) == 0;
  for (unsigned i = 0; i < 6; ++i) {
    void* dirty = malloc(KIB(500) + KIB(100) * i);
    CHECK(dirty != NULL);
    memset(dirty, 0xdd, KIB(500) + KIB(100) * i);
    free(dirty);
    malloc_trim(0);
    if (memomalloc_release)
      memomalloc_release();
    unsigned char* zeroed = calloc(1, KIB(450) + KIB(100) * i);
    CHECK(zeroed && all_zero(zeroed, KIB(450) + KIB(100) * i));
    memset(zeroed, 0xdd, KIB(450) + KIB(100) * i);
    free(zeroed);
  }
  if (locked)
    CHECK(munlockall() == 0);
}

static void bound_pages(void) {
  struct pages pages;
  void* block = take(KIB(256), &pages);
  unsigned long nodes = 1;
  // MPOL_PREFERRED on node 0; kernels without NUMA answer ENOSYS or EPERM.
  syscall(SYS_mbind, pages.start, pages.size, 1, &nodes, 8 * sizeof nodes, 0);
  CHECK(filled(block, KIB(256), 1));
  free(block);
}

static void protected_pages(void) {
  struct pages pages;
  void* block = take(KIB(256), &pages);
  CHECK(mprotect(pages.start, pages.size, PROT_READ) == 0);
  CHECK(filled(block, KIB(256), 1));
  CHECK(mprotect(pages.start, pages.size, PROT_READ | PROT_WRITE) == 0);
  fill(block, KIB(256), 2);
  free(block);
}

// Vector kernels read whole registers. glibc's own large blocks have nothing mapped behind them, so
// this is our promise only: of the slab's blocks and of those that learning gets, the last
// included.
static void readable_past_the_end(void) {
  unsigned char* blocks[kStepCount];
  const long before = counter("planned_allocations") + counter("pooled_allocations");
  take_steps((void**)blocks);
  const long ours = counter("planned_allocations") + counter("pooled_allocations") - before;
  unsigned sum = 0;
  for (unsigned i = 0; i < kStepCount && ours >= kStepCount; ++i)
    for (size_t past = 0; past < 128; ++past)
      sum += ((volatile unsigned char*)blocks[i])[step_size(i) + past];
  CHECK(sum <= kStepCount * 128 * 255);
  free_steps((void**)blocks);
}

// A block beyond what is made usable at the start: no step of making more usable may be refused.
static void more_memory_than_at_first(void) {
  char* block = malloc(MIB(80));
  CHECK(block != NULL);
  block[0] = block[MIB(80) - 1] = 1;
  if (serving_expected())
    CHECK(counter("fallback_limit") == 0);
  free(block);
}

int main(void) {
  static const struct test_case cases[] = {
      CASE(advice, 1),
      CASE(discarded_pages_read_as_zero, 2),
      CASE(locked_pages, 1),
      CASE(zeroes_while_everything_is_locked, 0),
      CASE(bound_pages, 1),
      CASE(protected_pages, 1),
      CASE(readable_past_the_end, kStepCount),
      CASE(more_memory_than_at_first, 1),
  };
  return RUN_CASES(cases);
}
