// Whether realloc to no bytes leaves a block is the allocator's choice.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(void) {
  const volatile size_t nothing = 0;
  int left = 0;
  for (int i = 0; i < 300; ++i) {
    void* block = realloc(memset(malloc(1 << 20), i, 1 << 20), nothing);
    left += block != NULL;
    free(block);
  }
  return printf("%d of 300 left a block\n", left) < 0;
}
