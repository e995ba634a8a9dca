// A second thread whose first large call comes when the process has used its limit up: there is no
// memory for what the library keeps of a thread, and there is again later. As with the system's
// allocator, what fits is given, what does not is refused, and nothing crashes.
#include <sys/mman.h>
#include <sys/resource.h>

#include "support.h"

enum { kSizes = 8, kSpare = 3000 };

static void* blocks[kSizes];
static struct rlimit before;

static void set_limit(int kind, rlim_t bytes) {
  const struct rlimit limit = {bytes, before.rlim_max};
  CHECK(setrlimit((__rlimit_resource_t)kind, &limit) == 0);
}

// Each call may be refused; what is given is whole.
static void* call_under_limit(void* kind) {
  CHECK(getrlimit((__rlimit_resource_t)(size_t)kind, &before) == 0);
  for (int round = 0; round < 3; ++round) {
    set_limit((int)(size_t)kind, KIB(64));
    for (unsigned i = 0; i < 40 * kSizes; ++i) {
      const size_t size = KIB(64) + KIB(24) * (i % kSizes);
      void* block = malloc(size);
      if (block != NULL) {
        fill(block, size, i);
        CHECK(filled(block, size, i));
      }
      free(block);
    }
    set_limit((int)(size_t)kind, before.rlim_cur);
    for (unsigned i = 0; i < kSpare; ++i) {
      const size_t size = KIB(64) + KIB(24) * (i % kSizes);
      void** slot = &blocks[i % kSizes];
      free(*slot);
      *slot = malloc(size);
      CHECK(*slot != NULL);
      fill(*slot, 4096, i);
    }
  }
  for (unsigned i = 0; i < kSizes; ++i)
    free(blocks[i]);
  memset(blocks, 0, sizeof blocks);
  return NULL;
}

static void learn_and_refuse(int kind, const char* name) {
  pthread_t thread;
  learn_steps();
  CHECK(pthread_create(&thread, NULL, call_under_limit, (void*)(size_t)kind) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
  printf("%s ok\n", name);
}

int main(void) {
  learn_and_refuse(RLIMIT_AS, "addresses");
  learn_and_refuse(RLIMIT_DATA, "data");
  // The thread's lane is taken over by the next one, and works again.
  void* served[kStepCount];
  for (int i = 0; i < kRepetitions; ++i) {
    take_steps(served);
    free_steps(served);
  }
  take_served_steps(served);
  free_steps(served);
  return 0;
}
