// A handler that jumps out of what it has interrupted: an allocation, a free, a giving back; not out of glibc's own
// code, whose malloc sorts its lists of freed blocks even for a block that it maps, and leaves them torn.
// What the interrupted call held is lost, but nobody waits for it: neither this thread, nor others,
// nor a fork, nor the process' end; and the blocks of before are whole.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/time.h>
#include <ucontext.h>

#include "support.h"

// In a process with two threads glibc takes locks elsewhere too. The library's thread may have been started, where
// blocks that jumps left behind came back on a slow machine: then nobody jumps any more.
enum { kBlocks = 12, kRounds = 60, kMicroseconds = 200 };

static sigjmp_buf way_out;
static volatile sig_atomic_t stop;
static volatile sig_atomic_t stays;  // nobody jumps any more
static const char* single_threaded;  // glibc's, from 2.32 on
static Dl_info glibc;
static int again;  // microseconds: long enough that the interrupted code goes on

static size_t large(unsigned i) {
  return KIB(64) + KIB(4) * ((i * 5u) % 13u);
}

static void take_and_free(unsigned count, unsigned id) {
  void* blocks[kBlocks];
  for (unsigned i = 0; i < count; ++i) {
    blocks[i] = malloc(large(i));
    CHECK(blocks[i] != NULL);
    fill(blocks[i], 4096, id + i);
  }
  for (unsigned i = 0; i < count; ++i) {
    CHECK(filled(blocks[i], 4096, id + i));
    free(blocks[i]);
  }
}

static void tick_once(int microseconds) {
  const struct itimerval once = {{0, 0}, {0, microseconds}};
  CHECK(setitimer(ITIMER_REAL, &once, NULL) == 0);
}

static void* where(const ucontext_t* context) {
#if defined(__x86_64__)
  return (void*)context->uc_mcontext.gregs[REG_RIP];
#else
  return (void*)context->uc_mcontext.pc;
#endif
}

static void jump(int number, siginfo_t* information, void* context) {
  (void)number, (void)information;
  stays = single_threaded != NULL && *single_threaded == 0;
  if (stays)
    return;
  Dl_info object;
  if (dladdr(where(context), &object) != 0 && object.dli_fbase == glibc.dli_fbase)
    tick_once(again);
  else
    siglongjmp(way_out, 1);
}

static void* work(void* unused) {
  (void)unused;
  for (unsigned i = 0; !stop; ++i)
    take_and_free(kBlocks, i);
  return NULL;
}

static void fork_and_work(void) {
  int status = 0;
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    end_after(20);
    take_and_free(kBlocks, 1);
    _exit(7);
  }
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
}

// The blocks that the jump has left behind are lost; only this thread jumps.
static void jump_out_of_calls(void) {
  static void* whole[kBlocks];
  for (unsigned i = 0; i < kBlocks; ++i) {
    whole[i] = malloc(large(i));
    fill(whole[i], large(i), i);
  }
  // Else there would be no served call to jump out of: a round is too short to learn in.
  for (unsigned i = 0; i < kRounds; ++i)
    take_and_free(kBlocks, i);
  check_served();
  const struct sigaction jumps = {.sa_sigaction = jump, .sa_flags = SA_SIGINFO | SA_RESTART};
  CHECK(sigaction(SIGALRM, &jumps, NULL) == 0);
  for (volatile unsigned i = 0; i < kRounds && !stays; ++i) {
    if (sigsetjmp(way_out, 1) == 0) {
      tick_once(kMicroseconds + (int)i % 50);
      for (unsigned j = 0; !stays; ++j) {
        take_and_free(kBlocks - i % 3, j);
        if (j % 8 == 0 && memomalloc_release)
          memomalloc_release();
      }
    }
    if (i % 40 == 0)
      fork_and_work();
  }
  for (unsigned i = 0; i < kBlocks; ++i) {
    CHECK(filled(whole[i], large(i), i));
    free(whole[i]);
  }
}

int main(void) {
  if (!on_glibc()) {
    printf("skipped: another allocator's malloc may not be jumped out of\n");
    return 0;
  }
  CHECK(dladdr(dlsym(RTLD_DEFAULT, "gnu_get_libc_version"), &glibc) != 0);
  again = 40 * (int)slower();
  single_threaded = dlsym(RTLD_DEFAULT, "__libc_single_threaded");
  struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGXCPU};
  const struct itimerspec limit = {{0, 0}, {60, 0}};
  timer_t timer;
  CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
  CHECK(timer_settime(timer, 0, &limit, NULL) == 0);
  jump_out_of_calls();
  printf("jumps out of calls ok\n");
  fflush(stdout);
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, work, NULL) == 0);
  fork_and_work();
  stop = 1;
  CHECK(pthread_join(thread, NULL) == 0);
  printf("others go on ok\n");
  fflush(stdout);
  _exit(0);
}
