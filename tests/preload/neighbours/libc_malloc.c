// malloc and free by the C library's own names, past whoever else is loaded; the rest is left to him.
#include <stdlib.h>

// NOLINTBEGIN(bugprone-reserved-identifier): the C library's
extern void* __libc_malloc(size_t bytes);
extern void __libc_free(void* block);
void* malloc(size_t bytes) {
  return __libc_malloc(bytes);
}
void free(void* block) {
  __libc_free(block);
}
// NOLINTEND(bugprone-reserved-identifier)

#ifdef PROGRAM
#include <stdio.h>
#include <string.h>
int main(void) {
  for (int i = 0; i < 300; ++i) {
    void* block = NULL;
    if (posix_memalign(&block, 64, 200000) != 0)
      return 1;
    free(memset(block, i, 200000));
    free(memset(calloc(1000, 1000), i, 1000000));
  }
  return puts("kept") < 0;
}
#endif
