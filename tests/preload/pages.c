// A kernel with larger pages, as far as the library can see it: loaded behind the library, it
// answers for the library's and the program's system calls on memory and refuses what a kernel with
// pages of PAGE_BYTES would refuse. The C library's own memory is not touched, because its calls do not come this way.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <stdarg.h>
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

// What moves comes to an aligned place, which is taken first.
void* mremap(void* address, size_t bytes, size_t to, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  void* place = (flags & MREMAP_FIXED) != 0 ? va_arg(rest, void*) : NULL;
  va_end(rest);
  if (refused(address) || refused(place))
    return MAP_FAILED;
  const int taken = place == NULL && (flags & MREMAP_MAYMOVE) != 0;
  if (taken) {
    place = mmap(NULL, to, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (place == MAP_FAILED)
      return MAP_FAILED;
    flags |= MREMAP_FIXED;
  }
  void* got = (void*)syscall(SYS_mremap, address, whole(bytes), whole(to), flags, place);
  if (got == MAP_FAILED && taken) {
    const int reason = errno;
    syscall(SYS_munmap, place, whole(to));
    errno = reason;
  }
  return got;
}

int mprotect(void* address, size_t bytes, int protection) {
  return refused(address) ? -1 : (int)syscall(SYS_mprotect, address, whole(bytes), protection);
}

int madvise(void* address, size_t bytes, int advice) {
  return refused(address) ? -1 : (int)syscall(SYS_madvise, address, whole(bytes), advice);
}

// What the kernel tells of small pages, from `first` on: 3 where one is in memory, 1 where none is, 0 where nothing is mapped.
// Few calls, since a handler of a signal may look while the next signal is on its way.
static void look(char* first, size_t count, unsigned char* found) {
  if (syscall(SYS_mincore, first, count * 4096, found) == 0) {
    for (size_t i = 0; i < count; ++i)
      found[i] = (found[i] & 1) != 0 ? 3 : 1;
  } else if (count == 1) {
    found[0] = 0;
  } else {
    look(first, count / 2, found);
    look(first + count / 2 * 4096, count - count / 2, found + count / 2);
  }
}

// One byte for each of the larger pages. One of them is there, or mapped, if a part of it is: where a
// part is written the kernel would have it all.
int mincore(void* address, size_t bytes, unsigned char* resident) {
  enum { kAtOnce = 256 };
  unsigned char found[kAtOnce];
  const size_t pages = (bytes + page_bytes() - 1) / page_bytes();
  const size_t each = page_bytes() / 4096;
  const size_t most = kAtOnce / each;
  if (refused(address))
    return -1;
  for (size_t first = 0; first < pages; first += most) {
    const size_t count = pages - first < most ? pages - first : most;
    look((char*)address + first * page_bytes(), count * each, found);
    for (size_t page = 0; page < count; ++page) {
      int mapped = 0;
      for (size_t i = 0; i < each; ++i)
        mapped |= found[page * each + i];
      resident[first + page] = mapped == 3;
      if (!mapped) {
        errno = ENOMEM;
        return -1;
      }
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

static const struct {
  const char* name;
  void* to;
} kTurned[] = {{"sysconf", sysconf}, {"mmap", mmap},         {"munmap", munmap},
               {"mremap", mremap},   {"mprotect", mprotect}, {"madvise", madvise},
               {"mincore", mincore}};
enum { kTurnedCount = sizeof kTurned / sizeof kTurned[0] };

// Adds the bit of the name to those that were met.
static void turn(const char* name, uintptr_t at, void* met) {
  for (unsigned i = 0; i < kTurnedCount; ++i) {
    if (strcmp(name, kTurned[i].name) != 0)
      continue;
    if (!turn_code(at, kTurned[i].to))
      abort();
    *(unsigned*)met |= 1u << i;
  }
}

// Before the library's own constructor. A library that keeps one way to the kernel's own pages would be tested in part.
__attribute__((constructor)) static void start(void) {
  const struct link_map* library = find_library();
  unsigned met = 0;
  if (library == NULL)
    return;
  each_function(library, turn, &met);
  if (met != (1u << kTurnedCount) - 1)
    abort();
}
