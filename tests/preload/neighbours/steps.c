// Small blocks that are made large in one step keep what is in them.
#include <stdlib.h>
#include <string.h>
int main(void) {
  for (int i = 0; i < 400; ++i) {
    memset(malloc(24), 0xff, 24);
    char* block = memset(malloc(24), i, 24);
    block = realloc(block, 200000);
    for (int k = 0; k < 24; ++k)
      if (block[k] != (char)i)
        return 1;
    free(memset(block, 1, 200000));
  }
  return 0;
}
