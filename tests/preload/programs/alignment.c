// Alignments: bad ones are refused as POSIX says, good ones up to 64 MiB are kept, plain malloc
// gives 16.
#include <malloc.h>

#include "support.h"

static void bad_alignments_are_refused(void) {
  const size_t bad[] = {0, 1, 2, 4, 3, 12, 24, 48, 4095, 4097, SIZE_MAX};
  const size_t sizes[] = {100, KIB(128)};
  void* large = malloc(KIB(128));
  CHECK(large != NULL);
  for (unsigned i = 0; i < sizeof bad / sizeof *bad; ++i) {
    for (unsigned j = 0; j < 2; ++j) {
      void* untouched = (void*)0x5a5a;
      errno = 77;
      CHECK(posix_memalign(&untouched, bad[i], sizes[j]) == EINVAL);
      CHECK(untouched == (void*)0x5a5a);
      CHECK(errno == 77);
    }
  }
  free(large);
}

// aligned_alloc and memalign differ between systems in what they make of a bad alignment; whatever
// the system's own do must not change, so it is printed for comparison.
static void odd_alignments_are_the_systems_business(void) {
  static int turn = 0;
  const size_t odd[] = {0, 1, 3, 24, 4097, (size_t)1 << 63, SIZE_MAX};
  const size_t sizes[] = {100, KIB(128)};
  void* large = malloc(KIB(128));
  CHECK(large != NULL);
  for (unsigned i = 0; i < sizeof odd / sizeof *odd; ++i) {
    for (unsigned j = 0; j < 2; ++j) {
      errno = 0;
      void* first = aligned_alloc(odd[i], sizes[j]);
      const int first_error = errno;
      errno = 0;
      void* second = memalign(odd[i], sizes[j]);
      if (turn == 0 && on_glibc())
        printf("alignment %zx, size %zu: %s %d, %s %d\n", odd[i], sizes[j],
               first ? "a block" : "none", first_error, second ? "a block" : "none", errno);
      free(first);
      free(second);
    }
  }
  turn = 1;
  free(large);
}

static void posix_memalign_keeps_every_alignment(void) {
  for (size_t alignment = sizeof(void*); alignment <= MIB(64); alignment *= 2) {
    void* block = NULL;
    const size_t size = KIB(70) + alignment % 4096;
    CHECK(posix_memalign(&block, alignment, size) == 0);
    CHECK((uintptr_t)block % alignment == 0);
    fill(block, size, 3);
    CHECK(filled(block, size, 3));
    free(block);
  }
}

static void aligned_alloc_and_memalign(void) {
  for (size_t alignment = 16; alignment <= MIB(4); alignment *= 4) {
    void* first = aligned_alloc(alignment, KIB(128));
    void* second = memalign(alignment, KIB(129) + 5);
    CHECK(first && second);
    CHECK((uintptr_t)first % alignment == 0 && (uintptr_t)second % alignment == 0);
    fill(first, KIB(128), 1);
    fill(second, KIB(129) + 5, 2);
    CHECK(filled(first, KIB(128), 1) && filled(second, KIB(129) + 5, 2));
    free(first);
    free(second);
  }
}

static void small_aligned_blocks(void) {
  for (size_t alignment = sizeof(void*); alignment <= KIB(64); alignment *= 2) {
    for (size_t size = 1; size < 5000; size = size * 4 + 3) {
      void* block = NULL;
      CHECK(posix_memalign(&block, alignment, size) == 0);
      CHECK((uintptr_t)block % alignment == 0);
      fill(block, size, 4);
      free(block);
    }
  }
}

static void page_aligned_functions(void) {
  const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
  const size_t sizes[] = {1, 5000, KIB(64) + 1, KIB(300)};
  for (unsigned i = 0; i < 4; ++i) {
    void* first = valloc(sizes[i]);
    // Another allocator that has no pvalloc would get glibc's block to free; with us it has one.
    void* second = on_glibc() || memomalloc_version
                       ? pvalloc(sizes[i])
                       : memalign(page, (sizes[i] + page - 1) / page * page);
    CHECK(first && second);
    CHECK((uintptr_t)first % page == 0 && (uintptr_t)second % page == 0);
    const size_t rounded = (sizes[i] + page - 1) / page * page;
    CHECK(malloc_usable_size(second) >= rounded);
    fill(first, sizes[i], 1);
    fill(second, rounded, 2);
    CHECK(filled(first, sizes[i], 1) && filled(second, rounded, 2));
    free(first);
    free(second);
  }
}

static void malloc_gives_sixteen(void) {
  void* blocks[40];
  unsigned count = 0;
  for (size_t size = 16; size < MIB(3); size = size * 3 / 2 + 1) {
    blocks[count] = malloc(size);
    CHECK(blocks[count] && (uintptr_t)blocks[count] % 16 == 0);
    ++count;
    blocks[count] = calloc(1, size + 1);
    CHECK(blocks[count] && (uintptr_t)blocks[count] % 16 == 0);
    free(blocks[count]);
  }
  while (count > 0)
    free(blocks[--count]);
}

// The same size at the same place of the sequence, but with a growing alignment from time to time.
static void alignment_changes_between_iterations(void) {
  static unsigned turn = 0;
  const size_t alignment = (size_t)64 << (turn++ % 8 == 7 ? 10 : 0);
  void* block = NULL;
  CHECK(posix_memalign(&block, alignment, KIB(220)) == 0);
  CHECK((uintptr_t)block % alignment == 0);
  fill(block, KIB(220), 1);
  free(block);
}

int main(void) {
  static const struct test_case cases[] = {
      CASE(bad_alignments_are_refused, 1),
      CASE(odd_alignments_are_the_systems_business, 1),
      CASE(posix_memalign_keeps_every_alignment, 4),
      CASE(aligned_alloc_and_memalign, 4),
      CASE(small_aligned_blocks, 0),
      CASE(page_aligned_functions, 2),
      CASE(malloc_gives_sixteen, 2),
      CASE(alignment_changes_between_iterations, 0),
  };
  return RUN_CASES(cases);
}
