// A kernel with larger pages, as far as the library can see it: loaded behind the library, it
// answers for the library's and the program's system calls on memory and refuses what a kernel with
// pages of PAGE_BYTES would refuse. The C library's own memory is not touched, because its calls do not come this way.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/support/turn_names.h"

static size_t page_bytes(void) {
  static size_t bytes;
  if (bytes == 0) {
    const char* text = getenv("PAGE_BYTES");
    bytes = text != NULL ? strtoul(text, NULL, 10) : 4096;
  }
  return bytes;
}

static size_t whole(size_t bytes) {
  return (bytes + page_bytes() - 1) / page_bytes() * page_bytes();
}

static int refused(const void* address) {
  if ((uintptr_t)address % page_bytes() == 0)
    return 0;
  errno = EINVAL;
  return 1;
}

long sysconf(int name) {
  static long (*next)(int);
  if (name == _SC_PAGESIZE)
    return (long)page_bytes();
  if (next == NULL)
    next = (long (*)(int))dlsym(RTLD_NEXT, "sysconf");
  return next(name);
}

int getpagesize(void) {
  return (int)page_bytes();
}

static void* map_pages(void* address, size_t bytes, int protection, int flags, int file,
                       off_t offset) {
  return (void*)syscall(SYS_mmap, address, bytes, protection, flags, file, offset);
}

// The start is aligned as a kernel's would be: the place is taken first, and what lies around it
// given back.
void* mmap(void* address, size_t bytes, int protection, int flags, int file, off_t offset) {
  if (address != NULL || bytes == 0)
    return refused(address) ? MAP_FAILED
                            : map_pages(address, whole(bytes), protection, flags, file, offset);
  const size_t all = whole(bytes) + page_bytes();
  char* start = map_pages(NULL, all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (start == MAP_FAILED)
    return MAP_FAILED;
  char* aligned = (char*)whole((uintptr_t)start);
  char* end = aligned + whole(bytes);
  if (aligned > start)
    syscall(SYS_munmap, start, (size_t)(aligned - start));
  if (end < start + all)
    syscall(SYS_munmap, end, (size_t)(start + all - end));
  void* got = map_pages(aligned, whole(bytes), protection, flags | MAP_FIXED, file, offset);
  if (got == MAP_FAILED) {
    const int reason = errno;
    syscall(SYS_munmap, aligned, whole(bytes));
    errno = reason;
  }
  return got;
}

int munmap(void* address, size_t bytes) {
  return refused(address) ? -1 : (int)syscall(SYS_munmap, address, whole(bytes));
}

int mprotect(void* address, size_t bytes, int protection) {
  return refused(address) ? -1 : (int)syscall(SYS_mprotect, address, whole(bytes), protection);
}

int madvise(void* address, size_t bytes, int advice) {
  return refused(address) ? -1 : (int)syscall(SYS_madvise, address, whole(bytes), advice);
}

// One byte for each of the larger pages. One of them counts as mapped if a part of it is, since not
// everything here lies as it would there.
int mincore(void* address, size_t bytes, unsigned char* resident) {
  if (refused(address))
    return -1;
  for (size_t page = 0; page * page_bytes() < bytes; ++page) {
    int mapped = 0;
    resident[page] = 1;
    for (size_t at = 0; at < page_bytes(); at += 4096) {
      unsigned char one = 0;
      if (syscall(SYS_mincore, (char*)address + page * page_bytes() + at, (size_t)4096, &one) ==
          0) {
        mapped = 1;
        resident[page] &= one;
      }
    }
    if (!mapped) {
      errno = ENOMEM;
      return -1;
    }
  }
  return 0;
}

// The C library knows the true size of a page.
void* valloc(size_t bytes) {
  return memalign(page_bytes(), bytes);
}

void* pvalloc(size_t bytes) {
  if (bytes > PTRDIFF_MAX - page_bytes()) {
    errno = ENOMEM;
    return NULL;
  }
  return memalign(page_bytes(), whole(bytes));
}

static void turn(const char* name, uintptr_t at, void* data) {
  static const struct {
    const char* name;
    void* to;
  } kTurned[] = {{"sysconf", sysconf},   {"mmap", mmap},       {"munmap", munmap},
                 {"mprotect", mprotect}, {"madvise", madvise}, {"mincore", mincore}};
  (void)data;
  for (size_t i = 0; i < sizeof kTurned / sizeof kTurned[0]; ++i) {
    if (strcmp(name, kTurned[i].name) == 0 && !turn_code(at, kTurned[i].to))
      abort();
  }
}

// Before the library's own constructor.
__attribute__((constructor)) static void start(void) {
  const struct link_map* library = find_library();
  if (library != NULL)
    each_function(library, turn, NULL);
}
