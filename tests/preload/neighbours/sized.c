// What an allocator of today's may not have, on its blocks.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

__attribute__((weak)) void free_sized(void* block, size_t bytes);

int main(void) {
  for (int i = 0; i < 200; ++i) {
    char* block = memset(malloc(100), i, 100);
    block = reallocarray(block, 1000, 1000);
    if (block[99] != (char)i)
      return 1;
    memset(block, i, 1000000);
    free_sized != NULL ? free_sized(block, 1000000) : free(block);
  }
  return puts("kept") < 0;
}
