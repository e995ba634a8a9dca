// A loop that is learned and left, then blocks of other sizes, as many as the loop's memory. What was held for the loop
// must not be what ends the process in a cgroup that has room for either.
#include "room.h"
#include "support.h"

enum { kLoop = 16, kIterations = 12, kOther = 44 };  // blocks

static void loop(void) {
  unsigned char* blocks[kLoop];
  for (unsigned round = 0; round < kIterations; ++round) {
    for (unsigned i = 0; i < kLoop; ++i) {
      const size_t size = MIB(2) + KIB(16) * i;
      blocks[i] = malloc(size);
      CHECK(blocks[i] != NULL);
      memset(blocks[i], (int)i, size);
    }
    for (unsigned i = 0; i < kLoop; ++i) {
      CHECK(blocks[i][0] == i && blocks[i][MIB(2) - 1] == i);
      free(blocks[i]);
    }
  }
}

static void other_blocks(size_t each) {
  static void* blocks[kOther];
  for (unsigned i = 0; i < kOther; ++i)
    blocks[i] = i % 2 == 0 ? malloc(each) : calloc(each, 1);
  fill_check_free(blocks, kOther, each);
}

int main(void) {
  if (!has_memory(MIB(48), KIB(4))) {
    puts("skipped: there is no memory for either");
    return 77;
  }
  const long before = counter("planned_allocations");
  loop();
  if (serving_expected())
    CHECK(counter("planned_allocations") > before);
  other_blocks(MIB(1));
  loop();
  other_blocks(MIB(1) + KIB(8));
  return 0;
}
