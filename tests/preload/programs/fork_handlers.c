// Handlers of pthread_atfork that allocate, those registered before the library's own too, which
// run while it holds its locks; exec from a process whose threads allocate; a child that goes on
// with the parent's loop for long.
#include "support.h"

enum { kCalls = 60 };  // enough to be learned within one handler
static void* kept[kCalls];
static volatile int handled;

// Large blocks, of which one survives the handler and is freed by the next. The library's locks are
// held: it serves none of them.
static void allocate_in_handler(void) {
  if (!handled)
    return;
  const long served = counter("large_allocations");
  free(kept[0]);
  for (unsigned round = 0; round < 8; ++round) {
    for (unsigned i = 0; i < kCalls; ++i) {
      kept[i] = malloc(KIB(80) + KIB(4) * (i % 9));
      CHECK(kept[i] != NULL);
      fill(kept[i], 100, i);
    }
    for (unsigned i = round < 7 ? 0 : 1; i < kCalls; ++i) {
      CHECK(filled(kept[i], 100, i));
      free(kept[i]);
    }
  }
  CHECK(counter("large_allocations") == served);
}

static void register_handlers(void) {
  CHECK(pthread_atfork(allocate_in_handler, allocate_in_handler, allocate_in_handler) == 0);
}

// The loader runs .preinit_array before any constructor.
__attribute__((section(".preinit_array"), used)) static void (*preinit)(void) = register_handlers;

// In a thread that has made no large call before, so that the library meets it in the handler.
static void* fork_in_new_thread(void* unused) {
  (void)unused;
  handled = 1;
  for (unsigned i = 0; i < repeated(10, 3); ++i) {
    const pid_t child = fork();
    if (child == 0) {
      end_after(30);
      learn_steps();
      _exit(0);
    }
    ends_well(child);
  }
  handled = 0;
  return NULL;
}

static void handlers_allocate(void) {
  pthread_t thread;
  learn_steps();
  CHECK(pthread_create(&thread, NULL, fork_in_new_thread, NULL) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
  fork_in_new_thread(NULL);  // and in one that serves
  printf("handlers allocate ok\n");
}

static volatile int stop;
static void* keep_allocating(void* unused) {
  (void)unused;
  while (!stop)
    learn_steps();
  return NULL;
}

static void exec_while_others_allocate(void) {
  pthread_t threads[2];
  for (int i = 0; i < 2; ++i)
    CHECK(pthread_create(&threads[i], NULL, keep_allocating, NULL) == 0);
  for (unsigned i = 0; i < repeated(20, 4); ++i) {
    const pid_t child = fork();
    if (child == 0) {
      execl("/bin/true", "true", (char*)NULL);
      _exit(127);
    }
    ends_well(child);
  }
  // The process itself is replaced while its threads are at work.
  CHECK(run_again("replaced", NULL, NULL) == 0);
  stop = 1;
  for (int i = 0; i < 2; ++i)
    CHECK(pthread_join(threads[i], NULL) == 0);
  printf("exec while others allocate ok\n");
}

static void child_goes_on(void) {
  void* blocks[kStepCount];
  learn_steps();
  take_served_steps(blocks);
  free_steps(blocks);
  const pid_t child = fork();
  if (child == 0) {
    end_after(60);
    for (unsigned i = 0; i < repeated(40, 4); ++i)
      learn_steps();
    take_served_steps(blocks);
    free_steps(blocks);
  }
  for (unsigned i = 0; i < repeated(40, 4); ++i)
    learn_steps();
  take_served_steps(blocks);
  free_steps(blocks);
  if (child == 0)
    _exit(0);
  ends_well(child);
  printf("a child goes on ok\n");
}

int main(int argc, char** argv) {
  // The tools that are started are this machine's own, and not an emulated processor's.
  if (getenv("RUN_UNDER") != NULL)
    unsetenv("LD_PRELOAD");
  setvbuf(stdout, NULL, _IONBF, 0);
  end_after(80);
  if (argc == 2) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, keep_allocating, NULL) == 0);
    learn_steps();
    execl("/bin/true", argv[0], (char*)NULL);
    return 127;
  }
  handlers_allocate();
  exec_while_others_allocate();
  child_goes_on();
  return 0;
}
