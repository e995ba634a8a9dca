// A program that maps something at fixed addresses, whatever is there: where these are free ones of
// the library's, what it has mapped stays its own.
#define _GNU_SOURCE
#include "support.h"

enum { kBlocks = 24, kFixed = 3 };

static unsigned char* map_fixed(uintptr_t start, size_t bytes) {
  unsigned char* mapped = mmap((void*)start, bytes, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  CHECK(mapped != MAP_FAILED);
  memset(mapped, 0x5a, bytes);
  return mapped;
}

static void use_memory(unsigned rounds) {
  void* blocks[kBlocks];
  for (unsigned round = 0; round < rounds; ++round) {
    for (unsigned i = 0; i < kBlocks; ++i) {
      const size_t size = MIB(1) + KIB(64) * ((i * 7 + round) % 40);
      blocks[i] = malloc(size);
      CHECK(blocks[i] != NULL);
      fill(blocks[i], size, i);
    }
    for (unsigned i = 0; i < kBlocks; ++i) {
      CHECK(*(unsigned char*)blocks[i] == (unsigned char)(i * 37u + 11u));
      free(blocks[i]);
    }
  }
}

// At the places of a plan: they are free between two iterations.
static void replace_in_a_loop(uintptr_t page) {
  void* blocks[kStepCount];
  unsigned char* fixed[3];
  learn_steps();
  take_served_steps(blocks);
  for (unsigned i = 0; i < 3; ++i)
    fixed[i] = (unsigned char*)(((uintptr_t)blocks[3 * i] + page - 1) / page * page);
  for (unsigned i = 0; i < 9; ++i)
    free(blocks[i]);
  for (unsigned i = 0; i < 3; ++i)
    map_fixed((uintptr_t)fixed[i], page);
  free(blocks[9]);
  for (unsigned round = 0; round < 60; ++round) {
    take_steps(blocks);
    free_steps(blocks);
    if (round == 40 && memomalloc_release)
      memomalloc_release();
    for (unsigned i = 0; i < 3; ++i)
      for (size_t at = 0; at < page; ++at)
        CHECK(fixed[i][at] == 0x5a);
  }
}

int main(void) {
  // Where blocks of some MiB lie, and behind them. Glibc's own addresses must not be replaced.
  char* const first = malloc(MIB(12));
  char* const second = malloc(MIB(12));
  CHECK(first != NULL && second != NULL);
  fill(first, MIB(12), 1);
  fill(second, MIB(12), 2);
  const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
  const int ours = serving_expected() && on_glibc();
  unsigned char* fixed[kFixed] = {0};
  const size_t sizes[kFixed] = {MIB(2), MIB(3), MIB(1)};
  const uintptr_t inside = ((uintptr_t)first + MIB(3) + page - 1) / page * page;
  const uintptr_t behind = ((uintptr_t)second + MIB(64) + page - 1) / page * page;
  free(first);
  free(second);
  if (ours) {
    fixed[0] = map_fixed(inside, sizes[0]);             // free, and used before
    fixed[1] = map_fixed(behind, sizes[1]);             // never used
    fixed[2] = map_fixed(behind + MIB(512), sizes[2]);  // nor near it
  }
  use_memory(40);
  if (memomalloc_release)
    memomalloc_release();
  use_memory(4);
  for (unsigned i = 0; i < kFixed && ours; ++i)
    for (size_t at = 0; at < sizes[i]; ++at)
      CHECK(fixed[i][at] == 0x5a);
  // Much memory is still to be had.
  char* const large = malloc(MIB(300));
  CHECK(large != NULL);
  fill(large, MIB(300), 3);
  for (unsigned i = 0; i < kFixed && ours; ++i)
    CHECK(fixed[i][0] == 0x5a && fixed[i][sizes[i] - 1] == 0x5a);
  CHECK(filled(large, MIB(300), 3));
  free(large);
  if (ours)
    replace_in_a_loop(page);
  printf("ok\n");
  return 0;
}
