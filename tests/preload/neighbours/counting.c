// A library that stands between, and looks at malloc, free and the end, as profilers do.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

static void* (*next_malloc)(size_t);
static void (*next_free)(void*);

__attribute__((constructor)) static void find(void) {
  if (next_malloc == NULL) {
    next_malloc = dlsym(RTLD_NEXT, "malloc");
    next_free = dlsym(RTLD_NEXT, "free");
  }
}
void* malloc(size_t bytes) {
  find();
  return next_malloc(bytes);
}
void free(void* block) {
  find();
  next_free(block);
}
// NOLINTNEXTLINE(bugprone-reserved-identifier): the C library's
void _exit(int code) {
  for (;;)
    syscall(SYS_exit_group, code);
}
