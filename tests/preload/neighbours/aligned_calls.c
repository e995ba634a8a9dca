// The program asks for small aligned blocks again and again; the same file as a library stands behind, and counts who
// comes by. Alone, the program's own calls are all that it counts.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#ifdef PROGRAM
extern int calls_that_came(void) __attribute__((weak));

int main(void) {
  for (int i = 0; i < 1000; ++i) {
    void* blocks[3];
    if (posix_memalign(&blocks[0], 64, 600) != 0 || posix_memalign(&blocks[1], 64, 40) != 0)
      return 1;
    blocks[2] = aligned_alloc(64, 2048);
    for (int k = 0; k < 3; ++k)
      free(blocks[k]);
  }
  printf("%d calls\n", calls_that_came ? calls_that_came() : -1);
  return 0;
}
#else
static int calls;
int calls_that_came(void) {
  return calls;
}
int posix_memalign(void** result, size_t alignment, size_t size) {
  static int (*next)(void**, size_t, size_t);
  if (next == NULL)
    next = dlsym(RTLD_NEXT, "posix_memalign");
  ++calls;
  return next(result, alignment, size);
}
void* aligned_alloc(size_t alignment, size_t size) {
  static void* (*next)(size_t, size_t);
  if (next == NULL)
    next = dlsym(RTLD_NEXT, "aligned_alloc");
  ++calls;
  return next(alignment, size);
}
#endif
