// What a debugger's core file holds: every mapping that the kernel does not mark as left out. Reserved addresses are
// marked, terabytes that nobody has touched; blocks, in use or free, are not.
#define _GNU_SOURCE
#include <stdint.h>

#include "support.h"

enum { kLoops = 300, kLineBytes = 512 };

// Bytes without access that a core file would hold; whether `address` is in one.
static uint64_t held_in_vain(uintptr_t address, int* holds) {
  FILE* file = fopen("/proc/self/smaps", "r");
  CHECK(file != NULL);
  char line[kLineBytes];
  char access[5] = "";
  uintptr_t start = 0;
  uintptr_t end = 0;
  uint64_t in_vain = 0;
  while (fgets(line, sizeof line, file) != NULL) {
    uintptr_t from = 0;
    uintptr_t to = 0;
    if (sscanf(line, "%lx-%lx %4s", &from, &to, access) == 3) {
      start = from;
      end = to;
    } else if (strncmp(line, "VmFlags:", 8) == 0 && strstr(line, " dd") == NULL) {
      in_vain += access[0] == '-' ? end - start : 0;
      *holds = *holds || (address >= start && address < end);
    }
  }
  fclose(file);
  return in_vain;
}

int main(void) {
  for (int i = 0; i < kLoops; ++i) {
    void* first = memset(malloc(MIB(1)), i, MIB(1));
    void* second = memset(malloc(MIB(3)), i, MIB(3));
    free(first);
    free(second);
  }
  void* block = memset(malloc(MIB(1)), 1, MIB(1));
  int holds = 0;
  const uint64_t in_vain = held_in_vain((uintptr_t)block, &holds);
  CHECK(holds);
  if (on_glibc())
    CHECK(in_vain < MIB(1024));
  free(block);
  printf("held what is there\n");
  return 0;
}
