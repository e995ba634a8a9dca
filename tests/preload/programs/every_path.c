// What holds whichever function gives a block and whichever takes it: 16 bytes of alignment, sizes
// that are no multiple of the alignment, C23's sized frees.
#include <malloc.h>

#include "support.h"

// C23's, which not every C library has yet.
extern void free_sized(void* block, size_t size) __attribute__((weak));
extern void free_aligned_sized(void* block, size_t alignment, size_t size) __attribute__((weak));

static void free_by_size(void* block, size_t size) {
  if (free_sized)
    free_sized(block, size);
  else
    free(block);
}

static void free_by_size_and_alignment(void* block, size_t alignment, size_t size) {
  if (free_aligned_sized)
    free_aligned_sized(block, alignment, size);
  else
    free(block);
}

static const size_t kSizes[] = {300, KIB(64) - 5, KIB(64), KIB(100) + 1, KIB(700) + 4095};
enum { kCount = sizeof kSizes / sizeof *kSizes };

static void sized_frees(void) {
  void* blocks[kCount];
  for (int round = 0; round < 2; ++round) {
    for (unsigned i = 0; i < kCount; ++i) {
      blocks[i] = malloc(kSizes[i]);
      CHECK(blocks[i] != NULL);
      fill(blocks[i], kSizes[i], i);
    }
    for (unsigned i = 0; i < kCount; ++i) {
      CHECK(filled(blocks[i], kSizes[i], i));
      errno = 4711;
      free_by_size(blocks[i], kSizes[i]);
      CHECK(errno == 4711);
    }
  }
  free_by_size(NULL, KIB(100));
}

static void aligned_sized_frees(void) {
  void* blocks[kCount];
  for (unsigned i = 0; i < kCount; ++i) {
    blocks[i] = aligned_alloc((size_t)32 << i, kSizes[i]);
    CHECK(blocks[i] && (uintptr_t)blocks[i] % ((size_t)32 << i) == 0);
    fill(blocks[i], kSizes[i], i);
  }
  for (unsigned i = 0; i < kCount; ++i) {
    CHECK(filled(blocks[i], kSizes[i], i));
    errno = 4711;
    free_by_size_and_alignment(blocks[i], (size_t)32 << i, kSizes[i]);
    CHECK(errno == 4711);
  }
  free_by_size_and_alignment(NULL, 64, KIB(100));
}

// glibc takes any size with any alignment; none may come out smaller than asked for.
static void sizes_that_are_no_multiple_of_the_alignment(void) {
  for (size_t alignment = 64; alignment <= MIB(1); alignment *= 16) {
    const size_t size = KIB(66) + alignment / 2 + 7;
    void* first = aligned_alloc(alignment, size);
    void* second = memalign(alignment, size);
    CHECK(first && second && first != second);
    CHECK((uintptr_t)first % alignment == 0 && (uintptr_t)second % alignment == 0);
    CHECK(malloc_usable_size(first) >= size && malloc_usable_size(second) >= size);
    fill(first, size, 1);
    fill(second, size, 2);
    CHECK(filled(first, size, 1) && filled(second, size, 2));
    free(first), free(second);
  }
}

static void* by_malloc(size_t size) {
  return malloc(size);
}
static void* by_calloc(size_t size) {
  return calloc(size, 1);
}
static void* by_realloc(size_t size) {
  return realloc(NULL, size);
}
static void* by_growing(size_t size) {
  return realloc(malloc(size / 3), size);
}
static void* by_shrinking(size_t size) {
  return realloc(malloc(size * 3), size);
}
static void* by_reallocarray(size_t size) {
  return reallocarray(malloc(50), size, 1);
}
static void* by_small_alignment(size_t size) {
  void* block = NULL;
  return posix_memalign(&block, sizeof(void*), size) == 0 ? block : NULL;
}
static void* by_valloc(size_t size) {
  return valloc(size);
}

static void sixteen_bytes_by_every_path(void) {
  void* (*const paths[])(size_t) = {by_malloc,    by_calloc,       by_realloc,         by_growing,
                                    by_shrinking, by_reallocarray, by_small_alignment, by_valloc};
  for (unsigned path = 0; path < sizeof paths / sizeof *paths; ++path) {
    for (unsigned i = 0; i < kCount; ++i) {
      void* block = paths[path](kSizes[i]);
      CHECK(block && (uintptr_t)block % (paths[path] == by_small_alignment ? 8 : 16) == 0);
      CHECK(malloc_usable_size(block) >= kSizes[i]);
      fill(block, kSizes[i], path);
      CHECK(filled(block, kSizes[i], path));
      free(block);
    }
  }
}

int main(void) {
  static const struct test_case cases[] = {
      CASE(sized_frees, 6),
      CASE(aligned_sized_frees, 3),
      CASE(sizes_that_are_no_multiple_of_the_alignment, 3),
      CASE(sixteen_bytes_by_every_path, 8),
  };
  return RUN_CASES(cases);
}
