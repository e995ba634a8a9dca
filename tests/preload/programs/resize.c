// realloc and reallocarray keep the contents across the threshold and across the slab's border, in
// both directions, whoever gave out the block.
#include <malloc.h>

#include "support.h"

// Reallocates step by step through `sizes`; the common prefix must survive every step.
static void walk(void* block, size_t size, const size_t* sizes, unsigned count) {
  CHECK(block != NULL);
  fill(block, size, 0);
  for (unsigned i = 0; i < count; ++i) {
    void* next = realloc(block, sizes[i]);
    CHECK(next != NULL);
    CHECK(sizes[i] < 16 || (uintptr_t)next % 16 == 0);
    CHECK(filled(next, size < sizes[i] ? size : sizes[i], i));
    CHECK(malloc_usable_size(next) >= sizes[i]);
    block = next;
    size = sizes[i];
    fill(block, size, i + 1);
  }
  CHECK(filled(block, size, count));
  free(block);
}

static void grow_across_the_threshold(void) {
  const size_t sizes[] = {KIB(32), KIB(64) - 1, KIB(64), KIB(128), MIB(1), MIB(4)};
  walk(malloc(100), 100, sizes, 6);
}

static void shrink_across_the_threshold(void) {
  const size_t sizes[] = {MIB(1), KIB(128), KIB(64), KIB(64) - 1, 1000, 1};
  walk(malloc(MIB(4)), MIB(4), sizes, 6);
}

// Learned as a whole: a plan places it, and it is cut there.
static void cut_when_served(void) {
  static _Thread_local unsigned times;
  const size_t sizes[] = {MIB(3), MIB(2), MIB(1), KIB(128), 1000};
  walk(malloc(MIB(4)), MIB(4), sizes, ++times % kRepetitions > kRepetitions / 2 ? 5 : 0);
}

static void there_and_back(void) {
  const size_t sizes[] = {10, KIB(256), 10, KIB(512), KIB(100), KIB(700)};
  walk(malloc(KIB(256)), KIB(256), sizes, 6);
}

static void same_size_and_within_the_page(void) {
  const size_t sizes[] = {KIB(200), KIB(200) - 1, KIB(200) - 4095, KIB(200), KIB(200) + 1};
  walk(malloc(KIB(200)), KIB(200), sizes, 5);
}

static void aligned_block_grows(void) {
  void* block = NULL;
  CHECK(posix_memalign(&block, 4096, KIB(90)) == 0);
  CHECK((uintptr_t)block % 4096 == 0);
  const size_t sizes[] = {KIB(180), KIB(70), KIB(300)};
  walk(block, KIB(90), sizes, 3);
}

static void calloc_block_grows(void) {
  unsigned char* block = calloc(1, KIB(128));
  CHECK(block && all_zero(block, KIB(128)));
  const size_t sizes[] = {KIB(256), KIB(66)};
  walk(block, KIB(128), sizes, 2);
}

static void null_is_malloc(void) {
  void* block = realloc(NULL, KIB(150));
  CHECK(block != NULL);
  const size_t sizes[] = {KIB(151)};
  walk(block, KIB(150), sizes, 1);
}

static void reallocarray_multiplies(void) {
  char* block = reallocarray(NULL, 1000, 300);
  CHECK(block && malloc_usable_size(block) >= 300000);
  fill(block, 300000, 9);
  block = reallocarray(block, 2000, 300);
  CHECK(block && malloc_usable_size(block) >= 600000);
  CHECK(filled(block, 300000, 9));
  free(block);
}

// A vector that doubles, as programs do it, while two other blocks of the slab are alive.
static void doubling_vector(void) {
  void* left = malloc(KIB(300));
  size_t capacity = 1024, used = 0;
  unsigned* items = malloc(capacity * sizeof *items);
  void* right = malloc(KIB(310));
  CHECK(left && items && right);
  fill(left, KIB(300), 1);
  fill(right, KIB(310), 2);
  for (; used < 300000; ++used) {
    if (used == capacity) {
      capacity *= 2;
      items = realloc(items, capacity * sizeof *items);
      CHECK(items != NULL);
    }
    items[used] = (unsigned)used;
  }
  for (size_t i = 0; i < used; ++i)
    CHECK(items[i] == i);
  CHECK(filled(left, KIB(300), 1) && filled(right, KIB(310), 2));
  free(left), free(items), free(right);
}

// A small block that becomes many times as large is the library's from then on.
static void asked_for_in_two_steps(void) {
  const size_t sizes[] = {KIB(4), MIB(2)};
  walk(malloc(100), 100, sizes, 2);
}

int main(void) {
  static const struct test_case cases[] = {
      CASE(grow_across_the_threshold, 0),
      CASE(shrink_across_the_threshold, 0),  // no plan holds what is cut
      CASE(there_and_back, 1),
      CASE(same_size_and_within_the_page, 1),
      CASE(aligned_block_grows, 0),
      CASE(calloc_block_grows, 0),
      CASE(null_is_malloc, 1),
      CASE(reallocarray_multiplies, 1),
      CASE(doubling_vector, 2),
      CASE(asked_for_in_two_steps, 1),
      CASE(cut_when_served, 0),
  };
  return RUN_CASES(cases);
}
