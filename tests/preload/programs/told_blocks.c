// mallinfo2() and mallinfo() tell of large blocks that are alive, whoever serves them.
#include "support.h"

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

static void tell(const char* when) {
  const struct mallinfo2 all = mallinfo2();
  const struct mallinfo few = mallinfo();
  printf("%s: %s, %zu MiB, %d MiB\n", when,
         all.hblks == (size_t)few.hblks ? "the same" : "not the same", all.hblkhd >> 20,
         few.hblkhd >> 20);
}

int main(void) {
  mallopt(M_MMAP_THRESHOLD, 128 << 10);  // it stays so
  tell("nothing");
  char* first = malloc(MIB(50));
  char* second = malloc(MIB(30));
  CHECK(first != NULL && second != NULL);
  tell("two blocks");
  free(first);
  tell("one block");
  free(second);
  learn_steps();
  void* blocks[kStepCount];
  take_steps(blocks);
  second = malloc(MIB(20));
  tell("a block beside a loop's");
  free(second);
  free_steps(blocks);
  tell("nothing");
  return 0;
}
