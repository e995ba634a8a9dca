// Each entry point as the very first call of a process, with a small and with a large block: in
// main, and before the constructors of any library, ours included. The program starts itself once
// for each row and the child makes nothing but that call.
#include <malloc.h>

#include "support.h"

// C23's; glibc has them from 2.43 on, the library always.
extern void free_sized(void* block, size_t size) __attribute__((weak));
extern void free_aligned_sized(void* block, size_t alignment, size_t size) __attribute__((weak));

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

static void* by_free_sized_of_null(size_t size) {
  if (free_sized)
    free_sized(NULL, size);
  return malloc(size);
}
static void* by_free_aligned_sized_of_null(size_t size) {
  if (free_aligned_sized)
    free_aligned_sized(NULL, 64, size);
  return malloc(size);
}
static void* by_malloc_info(size_t size) {
  return malloc_info(99, NULL) != 0 ? malloc(size) : NULL;
}
static void* by_mallopt(size_t size) {
  return mallopt(M_MMAP_THRESHOLD, (int)KIB(256)) == 1 ? malloc(size) : NULL;
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
    {"free_sized", by_free_sized_of_null},
    {"free_aligned_sized", by_free_aligned_sized_of_null},
    {"malloc_info", by_malloc_info},
    {"mallopt", by_mallopt},
};

static void call_row(const char* row, const char* kind) {
  const size_t size = kind[0] == 'l' ? KIB(512) : 1024;
  void* block = kRows[row[0] - 'a'].call(size);
  CHECK(block != NULL);
  fill(block, size, 1);
  CHECK(filled(block, size, 1) && malloc_usable_size(block) >= size);
  free(block);
}

// The loader runs .preinit_array before any constructor.
static void before_all_constructors(int argc, char** argv, char** variables) {
  (void)variables;
  if (argc == 4)
    call_row(argv[1], argv[2]);
}
__attribute__((section(".preinit_array"),
               used)) static void (*preinit)(int, char**, char**) = before_all_constructors;

int main(int argc, char** argv) {
  if (argc == 3)
    call_row(argv[1], argv[2]);
  if (argc > 1)
    return 0;
  for (unsigned i = 0; i < sizeof kRows / sizeof *kRows; ++i) {
    // By themselves some allocators have no pvalloc, or need their constructor to have run.
    if (strcmp(kRows[i].name, "pvalloc") == 0 && !on_glibc() && !memomalloc_version)
      continue;
    for (unsigned way = 0; way < (on_glibc() ? 4 : 2); ++way) {
      const char row[] = {(char)('a' + i), 0};
      CHECK(run_again(row, way % 2 ? "large" : "small", way < 2 ? NULL : "early") == 0);
    }
  }
  printf("%zu first calls ok\n", sizeof kRows / sizeof *kRows);
  return 0;
}
