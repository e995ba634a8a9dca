// calloc gives zeroes, also on pages of a slab that the previous iteration left dirty.
#include "support.h"

static void calloc_after_dirty_malloc(void) {
  void* dirty = malloc(KIB(512));
  CHECK(dirty != NULL);
  memset(dirty, 0xff, KIB(512));
  free(dirty);
  unsigned char* clean = calloc(1, KIB(512));
  CHECK(clean && all_zero(clean, KIB(512)));
  memset(clean, 0xee, KIB(512));
  free(clean);
}

// Sizes that are no multiple of a page: the last, partly used page counts too.
static void calloc_of_odd_sizes(void) {
  const size_t sizes[] = {KIB(64) + 1, KIB(100) + 4095, 3 * 70001, MIB(1) + 17};
  for (unsigned i = 0; i < 4; ++i) {
    unsigned char* block = calloc(sizes[i], 1);
    CHECK(block && all_zero(block, sizes[i]));
    memset(block, 0xa5, sizes[i]);
    free(block);
  }
}

static void calloc_while_neighbours_live(void) {
  unsigned char* blocks[5];
  for (unsigned i = 0; i < 5; ++i) {
    blocks[i] = calloc(7, KIB(13) + 1);
    CHECK(blocks[i] && all_zero(blocks[i], 7 * (KIB(13) + 1)));
    fill(blocks[i], 7 * (KIB(13) + 1), i);
  }
  for (unsigned i = 0; i < 5; ++i) {
    CHECK(filled(blocks[i], 7 * (KIB(13) + 1), i));
    free(blocks[i]);
  }
}

// The same position of the sequence is calloc's in one program and malloc's in another; here both
// sizes are equal and only the entry point alternates.
static void calloc_where_malloc_was_learned(void) {
  static int turn = 0;
  unsigned char* block = turn++ % 2 ? calloc(1, KIB(192)) : malloc(KIB(192));
  CHECK(block != NULL);
  if (turn % 2 == 0)
    CHECK(all_zero(block, KIB(192)));
  memset(block, 0x77, KIB(192));
  free(block);
}

static void small_calloc(void) {
  for (size_t size = 1; size < KIB(32); size = size * 3 + 1) {
    unsigned char* block = calloc(1, size);
    CHECK(block && all_zero(block, size));
    memset(block, 0x5a, size);
    free(block);
  }
}

int main(void) {
  static const struct test_case cases[] = {
      CASE(calloc_after_dirty_malloc, 2),
      CASE(calloc_of_odd_sizes, 4),
      CASE(calloc_while_neighbours_live, 5),
      CASE(calloc_where_malloc_was_learned, 1),
      CASE(small_calloc, 0),
  };
  return RUN_CASES(cases);
}
