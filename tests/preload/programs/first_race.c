// Many threads make the first large allocations of a process at the same moment, and free each
// other's: the library sets itself up under their feet. The program starts itself again and again.
#include "support.h"

enum { kThreads = 8, kBlocks = 40 };

static pthread_barrier_t start;
static void* exchanged[kThreads][kBlocks];

static void* rush(void* argument) {
  const size_t self = (size_t)argument;
  pthread_barrier_wait(&start);
  for (unsigned i = 0; i < kBlocks; ++i) {
    const size_t size = KIB(70) + KIB(4) * i;
    void* block = malloc(size);
    CHECK(block != NULL);
    fill(block, size, i);
    void* other =
        __atomic_exchange_n(&exchanged[(self + i) % kThreads][i], block, __ATOMIC_ACQ_REL);
    if (other)
      CHECK(filled(other, size, i));
    free(other);
  }
  return NULL;
}

int main(int argc, char** argv) {
  if (argc == 2) {
    pthread_t threads[kThreads];
    CHECK(pthread_barrier_init(&start, NULL, kThreads) == 0);
    for (size_t i = 0; i < kThreads; ++i)
      CHECK(pthread_create(&threads[i], NULL, rush, (void*)i) == 0);
    for (int i = 0; i < kThreads; ++i)
      CHECK(pthread_join(threads[i], NULL) == 0);
    for (int i = 0; i < kThreads; ++i)
      for (unsigned j = 0; j < kBlocks; ++j)
        free(exchanged[i][j]);
    return 0;
  }
  (void)argv;
  const unsigned children = repeated(40, 5);
  for (unsigned i = 0; i < children; ++i)
    CHECK(run_again("child", NULL, NULL) == 0);
  printf("%u first races ok\n", children);
  return 0;
}
