// Loaded behind the library: makes it see a machine of two memory nodes, where NODES says which are online
// (0-1). All processors that there are belong to node 1, and all memory lies on node 0 until it is moved. With
// NODES_REFUSE no page is moved, as in a container; with NODES_ROAM the thread is on another node each time;
// with NODES_TELL it prints at the end what was asked for: `nodes: N asked, N moved, N bound`.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SYSTEM "/sys/devices/system/node/"
enum { kPagesLog2 = 17 };
// By a hash of the address: pages that were moved to node 1. Few have the same one.
static _Atomic uintptr_t on_one[1 << kPagesLog2];
static atomic_long asked, moved, bound;

static int (*next_open)(const char*, int, ...);
static long (*next_syscall)(long, ...);

// At the start: later the library asks in the middle of malloc, where the dynamic linker's lock may be held.
__attribute__((constructor)) static void find_next(void) {
  if (next_syscall == NULL) {
    next_open = (int (*)(const char*, int, ...))dlsym(RTLD_NEXT, "open");
    next_syscall = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
  }
}

static _Atomic uintptr_t* slot_of(uintptr_t page) {
  return &on_one[(page >> 12) * 0x9e3779b97f4a7c15U >> (64 - kPagesLog2)];
}

// What the kernel's file of that name has; NULL: it is left as it is.
static const char* text_of(const char* path) {
  const char* online = getenv("NODES");
  if (online == NULL)
    return NULL;
  if (strcmp(path, "/proc/self/status") == 0)
    return "";  // which nodes the process may use: not told
  if (strncmp(path, SYSTEM, sizeof SYSTEM - 1) != 0)
    return NULL;
  const char* name = path + sizeof SYSTEM - 1;
  return strcmp(name, "node0/cpulist") == 0   ? "4000"
         : strcmp(name, "node1/cpulist") == 0 ? "0-1023"
                                              : online;
}

int open(const char* path, int flags, ...) {
  find_next();
  va_list rest;
  va_start(rest, flags);
  const int mode = va_arg(rest, int);
  va_end(rest);
  const char* text = text_of(path);
  if (text == NULL)
    return next_open(path, flags, mode);
  int ends[2];  // a pipe, which no limit on files keeps from being written
  if (pipe2(ends, O_CLOEXEC) != 0)
    return -1;
  const ssize_t written = write(ends[1], text, strlen(text));
  close(ends[1]);
  return written < 0 ? -1 : ends[0];
}

int sched_setaffinity(pid_t thread, size_t bytes, const cpu_set_t* set) {
  ++bound;
  return (int)syscall(SYS_sched_setaffinity, thread, bytes, set) < 0 ? -1 : 0;
}

int sched_getcpu(void) {
  static atomic_int times;
  return getenv("NODES_ROAM") != NULL && ++times % 2 == 0 ? 4000 : 0;
}

static long move_pages(unsigned long count, void** pages, const int* to, int* found) {
  if (getenv("NODES_REFUSE") != NULL) {
    errno = EPERM;
    return -1;
  }
  for (unsigned long i = 0; i < count; ++i) {
    const uintptr_t page = (uintptr_t)pages[i];
    if (to != NULL) {
      ++moved;
      atomic_store(slot_of(page), to[i] == 1 ? page : 0);
    }
    ++asked;
    found[i] = atomic_load(slot_of(page)) == page;
  }
  return 0;
}

long syscall(long number, ...) {
  find_next();
  long a[6];
  va_list rest;
  va_start(rest, number);
  for (int i = 0; i < 6; ++i)
    a[i] = va_arg(rest, long);
  va_end(rest);
  if (number == SYS_move_pages)
    return move_pages((unsigned long)a[1], (void**)a[2], (const int*)a[3], (int*)a[4]);
  return next_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

__attribute__((destructor)) static void tell(void) {
  if (getenv("NODES_TELL") != NULL)
    fprintf(stderr, "nodes: %ld asked, %ld moved, %ld bound\n", asked, moved, bound);
}
