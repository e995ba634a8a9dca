// What is allocated after gigabytes came and went keeps its contents, and a process with such a
// past holds no more than it uses. With an argument, prints what a call costs (nanoseconds).
#define _GNU_SOURCE
#include <malloc.h>
#include <time.h>

#include "support.h"

enum { kPast = 16, kCalls = 400, kMaxResident = 64 };

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static int compare(const void* left, const void* right) {
  const double a = *(const double*)left;
  const double b = *(const double*)right;
  return (a > b) - (a < b);
}

// The median of calls whose sizes repeat late; nanoseconds.
static double usual_call(void) {
  static double took[kCalls];
  for (unsigned i = 0; i < kCalls; ++i) {
    const size_t size = KIB(64) + KIB(4) * ((i * 7919u) % 211u);
    const double before = now();
    char* block = malloc(size);
    took[i] = now() - before;
    CHECK(block != NULL);
    block[0] = block[size - 1] = (char)i;
    CHECK(block[0] == (char)i);
    free(block);
  }
  qsort(took, kCalls, sizeof took[0], compare);
  return took[kCalls / 2];
}

// Gigabytes of addresses, of which little is written; alive at once, then freed.
static void past(unsigned gigabytes) {
  void* blocks[16 * kPast];
  const unsigned count = 16 * gigabytes;
  for (unsigned i = 0; i < count; ++i) {
    blocks[i] = malloc(MIB(64) - KIB(4) * (i % 7));
    if (blocks[i] != NULL)
      memset(blocks[i], 1, 64);
  }
  for (unsigned i = 0; i < count; ++i)
    free(blocks[i]);
}

// Blocks that grow where all addresses that the library has reserved are taken: the underlying
// allocator serves them.
static void beyond_all_addresses(void) {
  enum { kGrowing = 8, kBlocks = 2400 };
  static char* blocks[kGrowing + kBlocks];
  for (unsigned i = 0; i < kGrowing + kBlocks; ++i) {
    blocks[i] = malloc(i < kGrowing ? MIB(2) : MIB(192));  // none where the system refuses
    if (blocks[i] != NULL)
      fill(blocks[i], KIB(4), i);
  }
  for (unsigned i = 0; i < kGrowing; ++i) {
    char* larger = realloc(blocks[i], MIB(256));
    blocks[i] = larger == NULL ? blocks[i] : larger;
  }
  for (unsigned i = 0; i < kGrowing + kBlocks; ++i) {
    CHECK(blocks[i] == NULL || filled(blocks[i], KIB(4), i));
    free(blocks[i]);
  }
}

static long resident_mib(void) {
  long pages[2] = {0, 0};
  FILE* file = fopen("/proc/self/statm", "r");
  CHECK(file != NULL);
  CHECK(fscanf(file, "%ld %ld", &pages[0], &pages[1]) == 2);
  fclose(file);
  return pages[1] * sysconf(_SC_PAGESIZE) >> 20;
}

int main(int count, char** arguments) {
  const long before = resident_mib();
  const double fresh = usual_call();
  for (unsigned gigabytes = 1; gigabytes <= 16; gigabytes *= 4) {
    past(gigabytes);
    if (gigabytes == 4)
      malloc_trim(0);
    const double then = usual_call();
    if (count > 1 && atoi(arguments[1]) != 0)
      printf("after %u GiB: %.0f ns, fresh %.0f\n", gigabytes, then, fresh);
  }
  beyond_all_addresses();
  malloc_trim(0);
  CHECK(!on_glibc() || resident_mib() - before < kMaxResident);
  printf("done\n");
  return 0;
}
