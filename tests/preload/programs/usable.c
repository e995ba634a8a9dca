// malloc_usable_size: never less than asked for, and every byte of it belongs to the caller alone.
#include <malloc.h>

#include "support.h"

static void whole_usable_size_is_writable(void) {
  enum { kCount = 12 };
  void* blocks[kCount];
  size_t usable[kCount];
  for (unsigned i = 0; i < kCount; ++i) {
    const size_t size = i % 3 == 0 ? 40 + i * 100 : KIB(64) + i * 5003;
    blocks[i] = i % 4 == 1 ? calloc(1, size) : malloc(size);
    CHECK(blocks[i] != NULL);
    usable[i] = malloc_usable_size(blocks[i]);
    CHECK(usable[i] >= size);
    fill(blocks[i], usable[i], i);
  }
  for (unsigned i = 0; i < kCount; ++i) {
    CHECK(malloc_usable_size(blocks[i]) == usable[i]);
    CHECK(filled(blocks[i], usable[i], i));
    free(blocks[i]);
  }
}

static void usable_size_of_aligned_blocks(void) {
  void* blocks[6];
  size_t usable[6];
  for (unsigned i = 0; i < 6; ++i) {
    CHECK(posix_memalign(&blocks[i], (size_t)64 << i, KIB(65) + i * 777) == 0);
    usable[i] = malloc_usable_size(blocks[i]);
    CHECK(usable[i] >= KIB(65) + i * 777);
    fill(blocks[i], usable[i], i);
  }
  for (unsigned i = 0; i < 6; ++i) {
    CHECK(filled(blocks[i], usable[i], i));
    free(blocks[i]);
  }
}

static void usable_size_of_null_is_zero(void) {
  CHECK(malloc_usable_size(NULL) == 0);
  free(malloc(KIB(99)));
}

// A program that used the slack must find it again after realloc within the usable size.
static void slack_survives_realloc_to_it(void) {
  void* block = malloc(KIB(101) + 3);
  CHECK(block != NULL);
  const size_t usable = malloc_usable_size(block);
  fill(block, usable, 8);
  block = realloc(block, usable);
  CHECK(block && filled(block, usable, 8));
  free(block);
}

int main(void) {
  static const struct test_case cases[] = {
      CASE(whole_usable_size_is_writable, 8),
      CASE(usable_size_of_aligned_blocks, 6),
      CASE(usable_size_of_null_is_zero, 1),
      CASE(slack_survives_realloc_to_it, 1),
  };
  return RUN_CASES(cases);
}
