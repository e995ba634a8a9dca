// Coroutines whose small stacks lie inside the thread's own: what the library needs beyond a few hundred bytes of stack
// is elsewhere, and nothing beside them is written.
#include <ucontext.h>

#include "support.h"

enum { kStack = 8192, kGuard = 16384, kFilled = 0x5a };

static ucontext_t outside;
static ucontext_t inside;

// Beside so much that new memory comes in huge pages, which are looked at.
static void write_large(void) {
  enum { kLarge = 16 };
  void* blocks[kLarge];
  for (unsigned i = 0; i < kLarge; ++i)
    blocks[i] = malloc(MIB(4));
  fill_check_free(blocks, kLarge, MIB(4));
}

static void work(void) {
  write_large();
  for (int i = 0; i < 100; ++i) {
    void* blocks[kStepCount];
    for (unsigned k = 0; k < kStepCount; ++k)
      blocks[k] = malloc(step_size(k));
    for (unsigned k = 0; k < kStepCount; ++k)
      free(blocks[k]);
  }
}

static void* run(void* argument) {
  struct {
    unsigned char below[kGuard];
    char stack[kStack];
  } area;
  memset(area.below, kFilled, sizeof area.below);
  CHECK(getcontext(&inside) == 0);
  inside.uc_stack.ss_sp = area.stack;
  inside.uc_stack.ss_size = sizeof area.stack;
  inside.uc_link = &outside;
  makecontext(&inside, work, 0);
  CHECK(swapcontext(&outside, &inside) == 0);
  size_t written = 0;
  for (size_t i = 0; i < sizeof area.below; ++i)
    written += area.below[i] != kFilled;
  printf("%zu bytes below the stack\n", written);
  return argument;
}

int main(void) {
  run(NULL);
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, run, NULL) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
  check_served();
  return 0;
}
