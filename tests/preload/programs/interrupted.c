// A timer interrupts every path of the allocator: allocation, free, learning, planning, giving back
// and fork. Its handlers allocate, free and fork in each way that there is. Nothing may hang or be
// lost; children, too, find their blocks whole, go on and end. Then the same with threads, where
// handlers free and fork without locks, since glibc's own fork and malloc wait for what they have
// interrupted there.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <malloc.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/time.h>

#include "room.h"
#include "support.h"

enum { kBlocks = 12, kKept = 6, kMicroseconds = 300, kThreads = 3 };

static pid_t (*fork_bare)(void);  // _Fork, which is glibc's from 2.34 on
static volatile sig_atomic_t ticks, children;
static sig_atomic_t most_ticks;
static void* volatile kept[kKept];

// Sizes that the underlying allocator takes from the kernel one by one, so that it keeps no books that an
// interrupted call could leave half written.
static size_t large(unsigned i) {
  return KIB(512) + KIB(32) * ((i * 5u) % 13u);
}

static void take_and_free(unsigned count, unsigned id) {
  void* blocks[kBlocks];
  for (unsigned i = 0; i < count; ++i) {
    blocks[i] = malloc(large(i));
    CHECK(blocks[i] != NULL);
    memset(blocks[i], (int)(id + i), 4096);
  }
  for (unsigned i = 0; i < count; ++i) {
    CHECK(*(unsigned char*)blocks[i] == (unsigned char)(id + i));
    CHECK(((unsigned char*)blocks[i])[4095] == (unsigned char)(id + i));
    free(blocks[i]);
  }
}

static pid_t fork_somehow(unsigned way) {
  switch (way % 3) {
    case 0:
      return fork();
    case 1:
      return fork_bare();
    default:
      return (pid_t)syscall(SYS_clone, (long)SIGCHLD, 0L, 0L, 0L, 0L);
  }
}

static void end_child(pid_t child) {
  int status = 0;
  pid_t ended = -1;
  while ((ended = waitpid(child, &status, 0)) < 0 && errno == EINTR) {
  }
  CHECK(child > 0 && ended == child);
  if (status != 7 << 8)
    dprintf(STDERR_FILENO, "a child's status is %#x\n", (unsigned)status);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
  ++children;
}

// In a child: ends it where it hangs, which its parent is told then.
static void end_child_after(unsigned seconds) {
  sigset_t alarms;
  signal(SIGALRM, SIG_DFL);
  sigemptyset(&alarms);
  sigaddset(&alarms, SIGALRM);
  CHECK(sigprocmask(SIG_UNBLOCK, &alarms, NULL) == 0);
  end_after(seconds);
}

static void on_tick(int number) {
  (void)number;
  const int before = errno;
  const unsigned tick = (unsigned)ticks++;
  const unsigned slot = tick % kKept;
  free(kept[slot]);
  kept[slot] = malloc(large(tick));
  CHECK(kept[slot] != NULL);
  memset(kept[slot], (int)tick, 64);
  if (tick % 5 == 0) {
    const pid_t child = fork_somehow(tick / 5);
    if (child == 0) {
      end_child_after(20);
      CHECK(*(unsigned char*)kept[slot] == (unsigned char)tick);
      take_and_free(kBlocks, tick);
      free(kept[slot]);
      _exit(7);
    }
    end_child(child);
  }
  errno = before;
}

static void tick_for(int microseconds) {
  const int time = microseconds * (int)slower();
  const struct itimerval timer = {{0, time}, {0, time}};
  CHECK(setitimer(ITIMER_REAL, &timer, NULL) == 0);
}

// Loops that are learned, planned and served, and change, so that all of it comes again.
static void alone(void) {
  for (unsigned round = 0; ticks < most_ticks; ++round) {
    for (unsigned i = 0; i < 20; ++i)
      take_and_free(kBlocks - round % 5, i);
    if (memomalloc_release)
      memomalloc_release();
    malloc_trim(0);
    if (round % 4 == 0) {
      const pid_t child = fork();
      if (child == 0) {
        tick_for(0);
        end_child_after(20);
        take_and_free(kBlocks, round);
        _exit(7);
      }
      end_child(child);
    }
  }
}

// The child that a handler forked goes on where the handler was called: in the interrupted call.
static volatile sig_atomic_t goes_on;
static void on_one_tick(int number) {
  (void)number;
  const int before = errno;
  const pid_t child = fork_somehow((unsigned)++ticks);
  if (child == 0)
    goes_on = 1;
  else
    end_child(child);
  errno = before;
}

static void child_returns_into_the_call(void) {
  const struct itimerval once = {{0, 0}, {0, kMicroseconds * (int)slower()}};
  signal(SIGALRM, on_one_tick);
  for (unsigned i = 0; i < repeated(120, 12); ++i) {
    const sig_atomic_t now = ticks;
    CHECK(setitimer(ITIMER_REAL, &once, NULL) == 0);
    while (ticks == now && !goes_on) {
      take_and_free(kBlocks - i % 3, i);
      if (i % 7 == 0 && memomalloc_release)
        memomalloc_release();
    }
    if (goes_on) {
      end_child_after(20);
      for (int j = 0; j < 8; ++j)
        take_and_free(kBlocks, i);
      _exit(7);
    }
  }
}

static volatile int stop;
static void on_thread_tick(int number) {
  (void)number;
  const int before = errno;
  const unsigned tick = (unsigned)__atomic_fetch_add(&ticks, 1, __ATOMIC_RELAXED);
  free(__atomic_exchange_n(&kept[tick % kKept], NULL, __ATOMIC_ACQ_REL));
  if (tick % 8 == 0) {
    const pid_t child = tick % 16 == 0 ? fork_bare() : fork_somehow(2);
    if (child == 0)
      _exit(7);
    end_child(child);
  }
  errno = before;
}

static void* work(void* argument) {
  const unsigned id = (unsigned)(size_t)argument;
  for (unsigned i = 0; !stop; ++i) {
    take_and_free(kBlocks - i / 16 % 4, id);
    free(__atomic_exchange_n(&kept[i % kKept], malloc(large(i)), __ATOMIC_ACQ_REL));
    if (i % 32 == 0 && memomalloc_release)
      memomalloc_release();
  }
  return NULL;
}

// The main thread forks, with handlers and locks, while the handlers run on the others.
// Each of them may have a child at the same time as the others, which counts for as much as all of
// them.
static void with_threads(void) {
  pthread_t threads[kThreads];
  const size_t count = has_room(kThreads * MIB(200)) ? kThreads : 1;
  sigset_t alarms;
  ticks = 0;
  signal(SIGALRM, on_thread_tick);
  for (size_t i = 0; i < count; ++i)
    CHECK(pthread_create(&threads[i], NULL, work, (void*)(i + 1)) == 0);
  sigemptyset(&alarms);
  sigaddset(&alarms, SIGALRM);
  CHECK(pthread_sigmask(SIG_BLOCK, &alarms, NULL) == 0);
  tick_for(kMicroseconds);
  while (ticks < most_ticks) {
    const pid_t child = fork();
    if (child == 0) {
      end_child_after(20);
      for (int i = 0; i < 10; ++i)
        take_and_free(kBlocks, 3);
      _exit(7);
    }
    end_child(child);
    take_and_free(kBlocks, 4);
    usleep(2000);
  }
  tick_for(0);
  stop = 1;
  for (size_t i = 0; i < count; ++i)
    CHECK(pthread_join(threads[i], NULL) == 0);
}

// A thread's first call of glibc's malloc makes its cache under the arena's lock, even where there is
// one thread only. A handler that interrupts it and allocates waits for that lock for ever, so that
// call comes before the handlers.
static void have_a_cache(void) {
  void* volatile block = malloc(1);
  CHECK(block != NULL);
  free(block);
}

// Ends the process where it hangs; SIGALRM is taken.
static void end_hang_after(unsigned seconds) {
  struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGXCPU};
  const struct itimerspec limit = {{0, 0}, {seconds * slower(), 0}};
  timer_t timer;
  CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
  CHECK(timer_settime(timer, 0, &limit, NULL) == 0);
}

int main(void) {
  if (!on_glibc()) {
    printf("skipped: another allocator's malloc may not be interrupted by itself\n");
    return 0;
  }
  fork_bare = (__typeof__(fork_bare))dlsym(RTLD_DEFAULT, "_Fork");
  if (fork_bare == NULL)
    fork_bare = fork;
  most_ticks = (sig_atomic_t)repeated(600, 60);
  end_hang_after(60);
  have_a_cache();
  keep_off_the_heap();
  signal(SIGALRM, on_tick);
  tick_for(kMicroseconds);
  alone();
  tick_for(0);
  CHECK(children >= most_ticks / 5);
  check_served();
  printf("handlers that allocate, free and fork ok\n");
  fflush(stdout);
  child_returns_into_the_call();
  printf("children that return into the call ok\n");
  fflush(stdout);
  // qemu has a lock of its own for starting a thread, and a child of a process that was starting one
  // in another thread finds it held for ever: a child in which the library starts its thread hangs.
  if (getenv("RUN_UNDER") == NULL) {
    with_threads();
    printf("with threads ok\n");
  }
  return 0;
}
