// A loop that is learned and left, then as much memory as the loop's in other blocks: of other sizes, or as the argument
// says. What was held for the loop must not be what ends the process in a cgroup that has room for either.
#include <time.h>

#include "room.h"
#include "support.h"

enum { kLoop = 16, kIterations = 12, kOther = 44 };  // blocks
enum { kLarge = 58 };                                // MiB

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

// Long before a loop counts as left, which takes four seconds and more.
static void pause_after_loop(void) {
  const struct timespec little = {.tv_nsec = 20 * 1000 * 1000};
  if (memomalloc_version == NULL)
    return;
  for (unsigned tries = 0; tries < 100 && lazily_freed_kib() < 8 << 10; ++tries)
    nanosleep(&little, NULL);
}

static void small_blocks(void) {
  enum { kSmall = 40 << 10 };
  static void* blocks[kSmall];
  for (unsigned i = 0; i < kSmall; ++i)
    blocks[i] = malloc(KIB(1));
  fill_check_free(blocks, kSmall, KIB(1));
}

static void one_block(void) {
  void* block = malloc(MIB(kLarge));
  fill_check_free(&block, 1, MIB(kLarge));
}

static void grown_block(void) {
  void* block = NULL;
  for (size_t size = MIB(1); size <= MIB(kLarge); size += MIB(1)) {
    block = realloc(block, size);
    CHECK(block != NULL);
    memset((char*)block + size - MIB(1), 1, MIB(1));
  }
  fill_check_free(&block, 1, MIB(kLarge));
}

int main(int count, char** words) {
  const int again = count > 1 && strcmp(words[1], "again") == 0;
  const char* const then = count > 1 + again ? words[1 + again] : "";
  if (!has_memory(MIB(48), KIB(4))) {
    puts("skipped: there is no memory for either");
    return 77;
  }
  const long before = counter("planned_allocations");
  loop();
  if (serving_expected())
    CHECK(counter("planned_allocations") > before);
  if (again) {  // what the system was free to take is in use again
    pause_after_loop();
    loop();
  }
  if (strcmp(then, "one") == 0) {
    one_block();
    return 0;
  }
  if (strcmp(then, "grown") == 0) {
    grown_block();
    return 0;
  }
  if (strcmp(then, "small") == 0) {
    pause_after_loop();
    small_blocks();
    return 0;
  }
  other_blocks(MIB(1));
  loop();
  other_blocks(MIB(1) + KIB(8));
  return 0;
}
