// What a loop has freed is there when it comes round again: page faults end long before a plan does
// away with them, and also where only small blocks come and go, which are the underlying allocator's.
#include <fcntl.h>
#include <sys/resource.h>

#include "support.h"

// A number of /proc/vmstat, of all processes; 0 if it has none of that name, which follows a newline
// and ends in a space.
static long vmstat(const char* name) {
  static char text[KIB(64)];
  const int file = open("/proc/vmstat", O_RDONLY | O_CLOEXEC);
  if (file < 0)
    return 0;
  size_t length = 0;
  for (ssize_t got = 1; got > 0 && length < sizeof text - 1; length += (size_t)got) {
    got = read(file, text + length, sizeof text - 1 - length);
    CHECK(got >= 0);
  }
  close(file);
  text[length] = '\0';
  const char* found = strstr(text, name);
  return found ? strtol(found + strlen(name), NULL, 10) : 0;
}

// Of this process, but for the kernel's own: pages that it has hidden to see which NUMA node uses
// them, and free ones that it has taken since memory was short.
static long faults(void) {
  struct rusage usage;
  CHECK(getrusage(RUSAGE_SELF, &usage) == 0);
  return usage.ru_minflt - vmstat("\nnuma_hint_faults ") - vmstat("\npglazyfreed ");
}

// Faults of the last `rounds` - `settled` rounds.
static long steady_faults(void (*round)(void), unsigned rounds, unsigned settled) {
  long before = 0;
  for (unsigned i = 0; i < rounds; ++i) {
    if (i == settled)
      before = faults();
    round();
  }
  return faults() - before;
}

static void one_block(size_t size, unsigned i) {
  void* block = malloc(size);
  CHECK(block != NULL);
  fill(block, size, i);
  CHECK(filled(block, size, i));
  free(block);
}

enum { kEarly = 64 };

// Fewer calls than a loop needs to be believed.
enum { kFew = 6, kFewRounds = 32, kFewSettled = 12 };
static void few_large_blocks(void) {
  for (unsigned i = 0; i < kFew; ++i)
    one_block(MIB(14) - MIB(1) * i, i);
}

enum { kMany = 400, kManyRounds = 60, kManySettled = 20 };
static void many_small_blocks(void) {
  void* blocks[kMany];
  for (unsigned i = 0; i < kMany; ++i) {
    blocks[i] = malloc(KIB(1) + 16 * i);
    CHECK(blocks[i] != NULL);
    fill(blocks[i], KIB(1) + 16 * i, i);
  }
  for (unsigned i = 0; i < kMany; ++i) {
    CHECK(filled(blocks[i], KIB(1) + 16 * i, i));
    free(blocks[i]);
  }
}

int main(void) {
  // A process' first large blocks are the underlying allocator's, which learns nothing from such small
  // ones.
  for (unsigned i = 0; i < kEarly; ++i)
    one_block(KIB(96), i);
  const long large = steady_faults(few_large_blocks, kFewRounds, kFewSettled);
  printf("few_large_blocks ok\n");
  const long small = steady_faults(many_small_blocks, kManyRounds, kManySettled);
  printf("many_small_blocks ok\n");
  if (on_glibc()) {
    CHECK(large < kFewRounds - kFewSettled);
    CHECK(small < kManyRounds - kManySettled);
  }
  return 0;
}
