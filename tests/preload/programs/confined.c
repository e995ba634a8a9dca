// Programs that take system calls from themselves: a filter that ends the process at each call that
// glibc's own malloc, printf and exit do not need. Before the first large block, while a loop is
// learned, and while it is served. What they write in part only has memory in part only, although
// they may not ask what is resident.
#define _GNU_SOURCE
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "room.h"
#include "support.h"

#define ALLOW(name)                                      \
  BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##name, 0, 1), \
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

// What glibc's malloc calls for its own memory, locks and arenas; then output, and the end.
static void confine(void) {
  struct sock_filter rules[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      ALLOW(mmap),
      ALLOW(munmap),
      ALLOW(mremap),
      ALLOW(mprotect),
      ALLOW(madvise),
      ALLOW(brk),
      ALLOW(futex),
      ALLOW(getrandom),
      ALLOW(sched_getaffinity),
      ALLOW(openat),
      ALLOW(read),
      ALLOW(close),
      ALLOW(newfstatat),
      ALLOW(fstat),
      ALLOW(clock_gettime),
      ALLOW(write),
      ALLOW(prlimit64),
      ALLOW(exit_group),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
  };
  const struct sock_fprog program = {sizeof rules / sizeof rules[0], rules};
  CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
  // A kernel or an emulator without filters: the loops run without.
  prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

// As an emulator does: the call answers well, and nothing has happened.
static void take_nothing_back(void) {
  struct sock_filter rules[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_madvise, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const struct sock_fprog program = {sizeof rules / sizeof rules[0], rules};
  CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
  prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

// 100 MiB, so that whoever keeps much would start a thread for it.
static void iterate(unsigned rounds) {
  enum { kBlocks = 20 };
  void* blocks[kBlocks];
  for (unsigned round = 0; round < rounds; ++round) {
    for (unsigned i = 0; i < kBlocks; ++i) {
      const size_t size = MIB(5) + KIB(64) * ((i * 7) % kBlocks);
      blocks[i] = i % 10 == 0 ? calloc(1, size) : malloc(size);
      CHECK(blocks[i] != NULL);
      CHECK(i % 10 != 0 || all_zero(blocks[i], KIB(8)));
      memset(blocks[i], (int)i + 1, KIB(8));
    }
    for (unsigned i = 0; i < kBlocks; ++i) {
      blocks[i] =
          realloc(blocks[i], MIB(5) + KIB(64) * ((i * 7) % kBlocks) + KIB(4) * (i % 10 == 1));
      CHECK(blocks[i] != NULL && *(unsigned char*)blocks[i] == i + 1);
      free(blocks[i]);
    }
  }
}

int main(void) {
  int failed = 0;
  // A byte that is written takes 2 MiB where huge pages are always on.
  CHECK(prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) == 0);
  static const unsigned kBefore[] = {0, 1, 2, 3, 40};
  for (unsigned i = 0; i < sizeof kBefore / sizeof kBefore[0]; ++i) {
    fflush(stdout);
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
      iterate(kBefore[i]);
      confine();
      iterate(repeated(40, 24));
      CHECK(peak_kib() > 0 && peak_kib() < 64 << 10);
      _exit(0);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child);
    printf("confined after %u: %d\n", kBefore[i], status);
    failed |= status;
  }
  if (!on_glibc())  // others believe that their memory has become zeros
    return failed != 0;
  fflush(stdout);
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    take_nothing_back();
    iterate(repeated(40, 24));
    _exit(0);
  }
  int status = -1;
  CHECK(waitpid(child, &status, 0) == child);
  printf("where nothing is taken back: %d\n", status);
  return failed != 0 || status != 0;
}
