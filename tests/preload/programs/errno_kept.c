// errno: free never changes it, a successful allocation leaves it alone.
#include <malloc.h>

#include "support.h"

#define KEEPS_ERRNO(statement) \
  do {                         \
    errno = 4711;              \
    statement;                 \
    CHECK(errno == 4711);      \
  } while (0)

static void round_trip(size_t size) {
  void* block = NULL;
  KEEPS_ERRNO(block = malloc(size));
  CHECK(block != NULL);
  KEEPS_ERRNO(free(block));
  KEEPS_ERRNO(block = calloc(1, size));
  CHECK(block != NULL);
  KEEPS_ERRNO(block = realloc(block, size + size / 2));
  CHECK(block != NULL);
  KEEPS_ERRNO(free(block));
  KEEPS_ERRNO(CHECK(posix_memalign(&block, 64, size) == 0));
  KEEPS_ERRNO((void)malloc_usable_size(block));
  KEEPS_ERRNO(free(block));
  KEEPS_ERRNO(block = aligned_alloc(4096, size));
  CHECK(block != NULL);
  KEEPS_ERRNO(free(block));
  KEEPS_ERRNO(block = valloc(size));
  CHECK(block != NULL);
  KEEPS_ERRNO(free(block));
  KEEPS_ERRNO(free(NULL));
}

static void small_blocks(void) {
  round_trip(200);
}
static void large_blocks(void) {
  round_trip(KIB(128));
}
static void blocks_that_glibc_maps(void) {
  round_trip(MIB(40));
}

int main(void) {
  static const struct test_case cases[] = {
      CASE(small_blocks, 0),
      CASE(large_blocks, 5),
      CASE(blocks_that_glibc_maps, 5),
  };
  return RUN_CASES(cases);
}
