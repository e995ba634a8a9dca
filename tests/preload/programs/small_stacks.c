// Large allocations with little stack: a 16 KiB thread inside a frame of 6 KB and more, and a
// signal handler on a small alternate stack. An unwinder that wants more stack than is left must
// notice before it runs over the end.
#define _GNU_SOURCE
#include <signal.h>
#include <sys/mman.h>

#include "room.h"
#include "support.h"

// Noinline and volatile: the frame must really be there.
__attribute__((noinline)) static void allocate_in_a_big_frame(size_t size) {
  volatile char frame[size];
  memset((char*)frame, 1, size);
  for (int i = 0; i < kRepetitions; ++i) {
    unsigned char* block = malloc(MIB(1));
    CHECK(block != NULL);
    block[0] = block[MIB(1) - 1] = 1;
    void* second = calloc(1, KIB(300));
    CHECK(second != NULL);
    block = realloc(block, MIB(2));
    CHECK(block && block[MIB(1) - 1] == 1);
    free(second);
    free(block);
  }
  CHECK(frame[17] == 1);
}

static void* small_thread(void* frame) {
  allocate_in_a_big_frame((size_t)frame);
  return NULL;
}

// The stack lies between two guard pages, so that running over is a fault and not a silent
// overwrite.
static void thread_of_16_kib(void) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  const size_t size = 16 * 1024 > (size_t)PTHREAD_STACK_MIN ? 16 * 1024 : (size_t)PTHREAD_STACK_MIN;
  // Binding a function at its first call takes kilobytes of stack.
  free(realloc(malloc(KIB(100)), KIB(200)));
  free(calloc(1, KIB(100)));
  for (size_t i = 0; i < 20; ++i) {
    char* memory = mmap(NULL, size + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED && mprotect(memory + page, size, PROT_READ | PROT_WRITE) == 0);
    pthread_attr_t attributes;
    pthread_t thread;
    CHECK(pthread_attr_init(&attributes) == 0);
    CHECK(pthread_attr_setstack(&attributes, memory + page, size) == 0);
    CHECK(pthread_create(&thread, &attributes, small_thread, (void*)(6000 + i % 5 * 750)) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    pthread_attr_destroy(&attributes);
    munmap(memory, size + 2 * page);
  }
  printf("thread of 16 KiB ok\n");
}

static volatile int handled;

static void on_signal(int number) {
  (void)number;
  void* blocks[kStepCount];
  take_steps(blocks);
  free_steps(blocks);
  ++handled;
}

// raise() delivers the signal while no allocator's lock is held, so allocating in the handler is
// allowed.
static void handler_on_a_small_stack(void) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  const size_t least = (size_t)sysconf(_SC_MINSIGSTKSZ) + 4 * 1024;
  const size_t size = (least + page - 1) / page * page;
  char* memory = mmap(NULL, size + page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(memory != MAP_FAILED && mprotect(memory + page, size, PROT_READ | PROT_WRITE) == 0);
  const stack_t stack = {.ss_sp = memory + page, .ss_size = size};
  CHECK(sigaltstack(&stack, NULL) == 0);
  struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};
  CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
  for (int i = 0; i < 30; ++i)
    CHECK(raise(SIGUSR1) == 0);
  CHECK(handled == 30);
  printf("handler on a small stack ok\n");
}

static void recurse(int depth) {
  volatile char frame[400];
  frame[0] = (char)depth;
  void* block = malloc(KIB(70));
  CHECK(block != NULL);
  if (depth > 0)
    recurse(depth - 1);
  free(block);
  CHECK(frame[0] == (char)depth);
}

// Stacks far deeper than any unwinder's depth limit; a stack grows only where its blocks have left
// memory for it.
static void deep_recursion(void) {
  int depth = 3000;
  while (depth > 500 && !has_memory((size_t)depth * 2 * KIB(70), KIB(35)))
    depth /= 2;
  for (int i = 0; i < 4; ++i)
    recurse(depth);
  printf("deep recursion ok\n");
}

int main(void) {
  thread_of_16_kib();
  handler_on_a_small_stack();
  deep_recursion();
  check_served();
  return 0;
}
