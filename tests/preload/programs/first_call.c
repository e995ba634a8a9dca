// Each entry point as the very first call of a process, with a small and with a large block. The
// program starts itself once for each row and the child makes nothing but that call.
#include <malloc.h>
#include <spawn.h>
#include <sys/wait.h>

#include "support.h"

extern char** environ;

static void* by_malloc(size_t size) {
  return malloc(size);
}
static void* by_calloc(size_t size) {
  return calloc(2, size / 2);
}
static void* by_realloc(size_t size) {
  return realloc(NULL, size);
}
static void* by_reallocarray(size_t size) {
  return reallocarray(NULL, 2, size / 2);
}
static void* by_posix_memalign(size_t size) {
  void* block = NULL;
  return posix_memalign(&block, 256, size) == 0 ? block : NULL;
}
static void* by_aligned_alloc(size_t size) {
  return aligned_alloc(256, size);
}
static void* by_memalign(size_t size) {
  return memalign(256, size);
}
static void* by_valloc(size_t size) {
  return valloc(size);
}
static void* by_pvalloc(size_t size) {
  return pvalloc(size);
}
static void* by_free_of_null(size_t size) {
  free(NULL);
  return malloc(size);
}
static void* by_usable_size_of_null(size_t size) {
  return malloc_usable_size(NULL) == 0 ? malloc(size) : NULL;
}
static void* by_malloc_trim(size_t size) {
  malloc_trim(0);
  return malloc(size);
}
static void* by_mallinfo2(size_t size) {
  const struct mallinfo2 info = mallinfo2();
  return malloc(size + info.hblks * 0);
}

static const struct {
  const char* name;
  void* (*call)(size_t);
} kRows[] = {
    {"malloc", by_malloc},
    {"calloc", by_calloc},
    {"realloc", by_realloc},
    {"reallocarray", by_reallocarray},
    {"posix_memalign", by_posix_memalign},
    {"aligned_alloc", by_aligned_alloc},
    {"memalign", by_memalign},
    {"valloc", by_valloc},
    {"pvalloc", by_pvalloc},
    {"free", by_free_of_null},
    {"malloc_usable_size", by_usable_size_of_null},
    {"malloc_trim", by_malloc_trim},
    {"mallinfo2", by_mallinfo2},
};

int main(int argc, char** argv) {
  if (argc == 3) {
    const size_t size = argv[2][0] == 'l' ? KIB(512) : 1024;
    void* block = kRows[argv[1][0] - 'a'].call(size);
    CHECK(block != NULL);
    fill(block, size, 1);
    CHECK(filled(block, size, 1) && malloc_usable_size(block) >= size);
    free(block);
    return 0;
  }
  for (unsigned i = 0; i < sizeof kRows / sizeof *kRows; ++i) {
    for (unsigned large = 0; large < 2; ++large) {
      char row[] = {(char)('a' + i), 0}, size[] = {large ? 'l' : 's', 0};
      char* arguments[] = {argv[0], row, size, NULL};
      pid_t child;
      int status = 0;
      CHECK(posix_spawn(&child, "/proc/self/exe", NULL, NULL, arguments, environ) == 0);
      CHECK(waitpid(child, &status, 0) == child);
      printf("%s %s: %d\n", kRows[i].name, large ? "large" : "small", status);
      if (status != 0)
        return 1;
    }
  }
  return 0;
}
