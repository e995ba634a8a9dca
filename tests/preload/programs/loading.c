// The dynamic linker's lock against ours: dlopen and dlclose in one thread, large allocations and
// exceptions of the learning phase in others, and allocation inside a dl_iterate_phdr callback. A
// deadlock ends in SIGALRM. SOAK_SECONDS=60 makes the run as long as the promise.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <time.h>

#include "support.h"

static volatile int stop;

static void* load_and_unload(void* name) {
  long rounds = 0;
  while (!stop) {
    void* library = dlopen((const char*)name, RTLD_NOW);
    if (library)
      dlclose(library);
    ++rounds;
  }
  CHECK(rounds > 0);
  return NULL;
}

// Sizes change every few rounds, so that the sequence is recorded, and stacks are unwound, all the
// time.
static void* keep_recording(void* argument) {
  size_t extra = (size_t)argument;
  while (!stop) {
    for (int i = 0; i < 6; ++i) {
      void* blocks[kStepCount];
      for (unsigned j = 0; j < kStepCount; ++j) {
        blocks[j] = malloc(KIB(64) + extra * 512 + j * KIB(8));
        CHECK(blocks[j] != NULL);
        memset(blocks[j], 1, 4096);
      }
      for (unsigned j = 0; j < kStepCount; ++j)
        free(blocks[j]);
    }
    extra = (extra + 1) % 501;
  }
  return NULL;
}

static int allocate_inside(struct dl_phdr_info* info, size_t size, void* count) {
  (void)info, (void)size;
  void* blocks[kStepCount];
  take_steps(blocks);
  free_steps(blocks);
  ++*(int*)count;
  return 0;
}

static void* iterate(void* unused) {
  (void)unused;
  while (!stop) {
    int count = 0;
    dl_iterate_phdr(allocate_inside, &count);
    CHECK(count > 1);
  }
  return NULL;
}

int main(void) {
  const char* soak = getenv("SOAK_SECONDS");
  const unsigned seconds = soak ? (unsigned)atoi(soak) : repeated(2, 1);
  end_after(seconds + 40);
  pthread_t threads[5];
  CHECK(pthread_create(&threads[0], NULL, load_and_unload, "libz.so.1") == 0);
  CHECK(pthread_create(&threads[1], NULL, load_and_unload, "libgcc_s.so.1") == 0);
  CHECK(pthread_create(&threads[2], NULL, keep_recording, (void*)1) == 0);
  CHECK(pthread_create(&threads[3], NULL, keep_recording, (void*)250) == 0);
  CHECK(pthread_create(&threads[4], NULL, iterate, NULL) == 0);
  sleep(seconds);
  stop = 1;
  for (int i = 0; i < 5; ++i)
    CHECK(pthread_join(threads[i], NULL) == 0);
  check_served();
  printf("loading and allocating ok\n");
  return 0;
}
