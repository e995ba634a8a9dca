// Started under a filter that ends the process for calls that lists of allowed ones, such as
// systemd's @system-service, leave out: loops, sparse blocks, threads, forks and reports go on. And
// a filter that answers by a signal does so in every thread.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>

#include "support.h"

#ifndef SYS_close_range
#define SYS_close_range 436
#endif
#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438
#endif
#ifndef SECCOMP_FILTER_FLAG_TSYNC
#define SECCOMP_FILTER_FLAG_TSYNC 1UL
#endif

#define ON(call, action) \
  BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##call, 0, 1), BPF_STMT(BPF_RET | BPF_K, action)

// Where there are no filters, nothing is added.
static void add(struct sock_filter* rules, unsigned short count) {
  const struct sock_fprog program = {count, rules};
  CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
  syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program);
}

static void leave_out_rare_calls(void) {
  struct sock_filter rules[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      ON(mincore, SECCOMP_RET_KILL_PROCESS),
      ON(close_range, SECCOMP_RET_KILL_PROCESS),
      ON(pidfd_getfd, SECCOMP_RET_KILL_PROCESS),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  add(rules, sizeof rules / sizeof rules[0]);
}

// The last page of each block is written, and its first.
static void* iterate(void* unused) {
  enum { kBlocks = 12 };
  for (unsigned round = 0; round < repeated(40, 12); ++round) {
    char* blocks[kBlocks];
    for (unsigned i = 0; i < kBlocks; ++i) {
      const size_t size = MIB(2) + KIB(64) * i + (round % 5 == 4 ? KIB(512) : 0);
      blocks[i] = malloc(size);
      CHECK(blocks[i] != NULL);
      blocks[i][0] = blocks[i][size - 1] = (char)i;
    }
    for (unsigned i = 0; i < kBlocks; ++i)
      free(blocks[i]);
  }
  return unused;
}

static void work(void) {
  pthread_t thread;
  iterate(NULL);
  CHECK(pthread_create(&thread, NULL, iterate, NULL) == 0);
  iterate(NULL);
  CHECK(pthread_join(thread, NULL) == 0);
  const pid_t child = fork();
  if (child == 0) {
    iterate(NULL);
    _exit(0);
  }
  ends_well(child);
}

// What the library asks the kernel at its start has one answer: a page is no larger for it.
static void refuse_advice(unsigned error) {
  struct sock_filter rules[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      ON(madvise, SECCOMP_RET_ERRNO | error),
      ON(unshare, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  add(rules, sizeof rules / sizeof rules[0]);
}

static void free_large_blocks(void) {
  for (unsigned round = 0; round < 40; ++round) {
    char* block = malloc(MIB(24) + MIB(1) * (round % 3));
    CHECK(block != NULL);
    memset(block, 1, MIB(24));
    free(block);
  }
}

// Children may get zeros for free memory, and no more are to get copies.
static void refuse_to_keep(unsigned error) {
  enum { kKeepOnFork = 19 };
  struct sock_filter rules[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_madvise, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kKeepOnFork, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  add(rules, sizeof rules / sizeof rules[0]);
}

static void use_blocks(int forks) {
  enum { kBlocks = 8 };
  char* blocks[kBlocks];
  for (unsigned i = 0; i < kBlocks; ++i) {
    blocks[i] = malloc(MIB(6));
    CHECK(blocks[i] != NULL);
    memset(blocks[i], (int)(i + 1), MIB(6));
  }
  if (forks) {
    const pid_t child = fork();
    if (child == 0) {
      for (unsigned i = 0; i < kBlocks; ++i)
        CHECK(blocks[i][0] == (char)(i + 1) && memcmp(blocks[i], blocks[i] + 1, MIB(6) - 1) == 0);
      _exit(0);
    }
    ends_well(child);
  }
  for (unsigned i = 0; i < kBlocks; ++i)
    free(blocks[i]);
}

static void fork_between(void) {
  for (unsigned round = 0; round < 7; ++round)
    use_blocks(0);
  const pid_t child = fork();  // while all is free
  if (child == 0)
    _exit(0);
  ends_well(child);
  for (unsigned round = 0; round < 5; ++round)
    use_blocks(1);
}

// Each word that this program starts itself anew with has its filter and its part.
static const struct {
  const char* word;
  void (*filter)(unsigned error);
  unsigned error;
  void (*part)(void);
} kParts[] = {{"refused", refuse_advice, EPERM, free_large_blocks},
              {"invalid", refuse_advice, EINVAL, free_large_blocks},
              {"kept", refuse_to_keep, EPERM, fork_between}};
enum { kPartCount = sizeof kParts / sizeof kParts[0] };

static void answer(int signal, siginfo_t* info, void* context) {
  (void)signal;
  (void)info;
#if defined __x86_64__
  ((ucontext_t*)context)->uc_mcontext.gregs[REG_RAX] = -EPERM;
#elif defined __aarch64__
  ((ucontext_t*)context)->uc_mcontext.regs[0] = (unsigned long long)-EPERM;
#else
  (void)context;
#endif
}

static void trap_files(void) {
  struct sigaction action = {0};
  action.sa_sigaction = answer;
  action.sa_flags = SA_SIGINFO;
  CHECK(sigaction(SIGSYS, &action, NULL) == 0);
  struct sock_filter rules[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      ON(openat, SECCOMP_RET_TRAP),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  add(rules, sizeof rules / sizeof rules[0]);
}

int main(int argc, char** argv) {
  if (argc == 1) {
    for (unsigned i = 0; i < kPartCount; ++i) {
      const pid_t child = fork();
      if (child == 0) {
        kParts[i].filter(kParts[i].error);
        CHECK(run_again(kParts[i].word, NULL, NULL) == 0);
        _exit(0);
      }
      ends_well(child);
    }
    leave_out_rare_calls();
    CHECK(run_again("filtered", NULL, NULL) == 0);
    printf("started filtered ok\n");
    return 0;
  }
  for (unsigned i = 0; i < kPartCount; ++i)
    if (strcmp(argv[1], kParts[i].word) == 0) {
      kParts[i].part();
      return 0;
    }
  work();
  trap_files();
  iterate(NULL);
  usleep(2500000);  // its own threads look about
  iterate(NULL);
  return 0;
}
