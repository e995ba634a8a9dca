// Handlers that allocate come where glibc holds the locks of its allocator: in fork(), which takes them
// in a process with threads, and in malloc_trim(), which always does. Alone the program has one thread,
// and its handlers never wait for a lock. The library's own thread must not change that, nor what it
// does in a handler's large call.
#include <malloc.h>
#include <signal.h>
#include <sys/time.h>

#include "support.h"

enum { kBlocks = 12, kMicroseconds = 300 };

static volatile sig_atomic_t ticks, trims;
static void* volatile kept;

// More than the library keeps in a program of one thread without a thread of its own; of little memory.
static size_t large(unsigned i) {
  return MIB(2) + KIB(64) * ((i * 5u) % 13u);
}

static void take_and_free(unsigned seed) {
  void* blocks[kBlocks];
  for (unsigned i = 0; i < kBlocks; ++i) {
    blocks[i] = malloc(large(i) + KIB(100) * seed);
    CHECK(blocks[i] != NULL);
    memset(blocks[i], (int)(seed + i), 64);
  }
  for (unsigned i = 0; i < kBlocks; ++i) {
    CHECK(*(unsigned char*)blocks[i] == (unsigned char)(seed + i));
    free(blocks[i]);
  }
}

static void set_timer(long first, long then) {
  const struct itimerval timer = {{0, then * slower()}, {0, first * slower()}};
  CHECK(setitimer(ITIMER_REAL, &timer, NULL) == 0);
}

static void on_tick(int number) {
  (void)number;
  const int before = errno;
  free(kept);
  kept = malloc(large((unsigned)ticks++));
  CHECK(kept != NULL);
  memset(kept, 1, 64);
  errno = before;
}

static void in_fork(void) {
  signal(SIGALRM, on_tick);
  set_timer(kMicroseconds, kMicroseconds);
  for (unsigned i = 0; i < repeated(300, 60); ++i) {
    take_and_free(0);
    int status = -1;
    const pid_t child = fork();
    if (child == 0) {
      sigset_t blocked;
      set_timer(0, 0);
      CHECK(sigprocmask(SIG_SETMASK, NULL, &blocked) == 0 && !sigismember(&blocked, SIGALRM));
      take_and_free(0);
      _exit(7);
    }
    CHECK(child > 0);
    while (waitpid(child, &status, 0) < 0)
      CHECK(errno == EINTR);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
  }
  set_timer(0, 0);
}

static void on_one_tick(int number) {
  (void)number;
  const int before = errno;
  ++trims;
  for (unsigned i = 0; i < 24; ++i)
    take_and_free((unsigned)trims);
  errno = before;
}

// A loop that is taller than all before it is learned and served in one handler. The heap is nearly
// empty: a handler's call would change lists that malloc_trim() goes through.
static void in_trim(void) {
  signal(SIGALRM, on_one_tick);
  for (sig_atomic_t i = 0; i < (sig_atomic_t)repeated(12, 4); ++i) {
    set_timer(kMicroseconds, 0);
    while (trims == i)
      malloc_trim(0);
  }
}

// In a child, which may hang where no signal but the last reaches it.
static void ends_by_itself(void (*part)(void)) {
  const pid_t child = fork();
  if (child == 0) {
    part();
    _exit(0);
  }
  ends_well_within(child, 10);
}

int main(void) {
  if (!on_glibc()) {
    printf("skipped: another allocator's malloc may not be interrupted by itself\n");
    return 0;
  }
  void* volatile block = malloc(1);  // a thread's first call has locks of its own
  CHECK(block != NULL);
  free(block);
  keep_off_the_heap();
  ends_by_itself(in_fork);
  printf("handlers in fork ok\n");
  ends_by_itself(in_trim);
  printf("handlers in malloc_trim ok\n");
  return 0;
}
