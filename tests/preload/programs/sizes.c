// Extreme sizes: zero, PTRDIFF_MAX and products that overflow. A request that cannot be met gives
// NULL and ENOMEM and leaves the old block as it was.
#include <malloc.h>

#include "support.h"

// volatile: the compiler must not reason about sizes that no object can have.
static volatile size_t huge = PTRDIFF_MAX;
static volatile size_t most = SIZE_MAX;

// Other allocators than glibc's forget errno in places; that is not ours to judge.
#define CHECK_ENOMEM(call)    \
  do {                        \
    errno = 0;                \
    CHECK((call) == NULL);    \
    if (on_glibc())           \
      CHECK(errno == ENOMEM); \
  } while (0)

static void zero_sizes_give_distinct_blocks(void) {
  void* first = malloc(0);
  void* second = malloc(0);
  void* third = calloc(0, 8);
  void* fourth = calloc(8, 0);
  void* fifth = realloc(NULL, 0);
  CHECK(first && second && third && fourth && fifth);
  CHECK(first != second && second != third && third != fourth && fourth != fifth);
  void* aligned = NULL;
  CHECK(posix_memalign(&aligned, 64, 0) == 0);
  CHECK((uintptr_t)aligned % 64 == 0);
  void* large = malloc(KIB(128));
  CHECK(large != NULL);
  free(large);
  free(first), free(second), free(third), free(fourth), free(fifth), free(aligned);
}

static void realloc_to_zero_frees(void) {
  void* large = malloc(KIB(256));
  CHECK(large != NULL);
  void* rest = realloc(large, 0);
  if (on_glibc())
    CHECK(rest == NULL);
  free(rest);
  void* small = malloc(64);
  rest = realloc(small, 0);
  if (on_glibc())
    CHECK(rest == NULL);
  free(rest);
}

static void free_of_null_does_nothing(void) {
  free(NULL);
  void* block = malloc(KIB(80));
  CHECK(block != NULL);
  free(block);
  free(NULL);
}

static void impossible_sizes_are_refused(void) {
  void* before = malloc(KIB(200));
  CHECK(before != NULL);
  const size_t sizes[] = {huge, huge + 1, most, most - 4096, most - 64};
  for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
    CHECK_ENOMEM(malloc(sizes[i]));
    CHECK_ENOMEM(calloc(1, sizes[i]));
    CHECK_ENOMEM(realloc(NULL, sizes[i]));
    CHECK_ENOMEM(aligned_alloc(64, sizes[i]));
    CHECK_ENOMEM(memalign(4096, sizes[i]));
    CHECK_ENOMEM(valloc(sizes[i]));
    if (on_glibc())
      CHECK_ENOMEM(pvalloc(sizes[i]));
    void* untouched = &untouched;
    CHECK(posix_memalign(&untouched, 4096, sizes[i]) == ENOMEM);
    CHECK(untouched == &untouched);
  }
  free(before);
}

static void products_that_overflow_are_refused(void) {
  void* block = malloc(KIB(160));
  CHECK(block != NULL);
  fill(block, KIB(160), 5);
  const volatile size_t half = (size_t)1 << (sizeof(size_t) * 4);
  CHECK_ENOMEM(calloc(half, half));
  CHECK_ENOMEM(calloc(most, 2));
  CHECK_ENOMEM(calloc(most / 2 + 1, 2));
  CHECK_ENOMEM(reallocarray(NULL, half, half));
  CHECK_ENOMEM(reallocarray(block, most / 2 + 1, 2));
  CHECK(filled(block, KIB(160), 5));
  free(block);
}

static void failed_realloc_keeps_the_block(void) {
  void* large = malloc(KIB(300));
  void* small = malloc(500);
  CHECK(large && small);
  fill(large, KIB(300), 1);
  fill(small, 500, 2);
  CHECK_ENOMEM(realloc(large, huge));
  CHECK_ENOMEM(realloc(large, most));
  CHECK_ENOMEM(realloc(small, most - 100));
  CHECK(filled(large, KIB(300), 1));
  CHECK(filled(small, 500, 2));
  CHECK(malloc_usable_size(large) >= KIB(300));
  free(large);
  free(small);
}

// Every size around the threshold's neighbourhood, one byte at a time at the border.
static void sizes_around_the_threshold(void) {
  for (size_t size = KIB(64) - 3; size <= KIB(64) + 3; ++size) {
    unsigned char* block = malloc(size);
    CHECK(block != NULL);
    fill(block, size, (unsigned)size);
    CHECK(filled(block, size, (unsigned)size));
    free(block);
  }
}

int main(void) {
  static const struct test_case cases[] = {
      CASE(zero_sizes_give_distinct_blocks, 1),    CASE(realloc_to_zero_frees, 1),
      CASE(free_of_null_does_nothing, 1),          CASE(impossible_sizes_are_refused, 1),
      CASE(products_that_overflow_are_refused, 1), CASE(failed_realloc_keeps_the_block, 1),
      CASE(sizes_around_the_threshold, 4),
  };
  return RUN_CASES(cases);
}
