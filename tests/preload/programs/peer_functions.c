// Other allocators' own functions on blocks of malloc's: small ones, large ones while a loop is
// learned, and blocks of a slab. Found as programs find them, by dlsym; where there is no such
// allocator there must be none of its functions, and malloc's own do the same work.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <malloc.h>

#include "support.h"

typedef void free_function(void*);
typedef size_t size_function(const void*);

static void* find(const char* name) {
  return dlsym(RTLD_DEFAULT, name);
}

static size_t plain_size(const void* block) {
  return malloc_usable_size((void*)block);
}

// Functions of one shape; the C library's stands in where an allocator does not have one.
static size_t size_by(const char* name, const void* block) {
  size_function* function = (size_function*)find(name);
  return function != NULL ? function(block) : plain_size(block);
}
static void free_by(const char* name, void* block) {
  free_function* function = (free_function*)find(name);
  function != NULL ? function(block) : free(block);
}
static const size_t sizes[] = {100, 5000, 100000, 300001, 1 << 20, (3 << 20) + 5};
enum { kSizes = sizeof sizes / sizeof *sizes };

static void* made(size_t size, unsigned id) {
  void* block = malloc(size);
  CHECK(block != NULL);
  fill(block, size, id);
  return block;
}

// Every byte that a function promises can be used, and no other block loses one.
static void check_size(const void* block, size_t asked, size_t told) {
  CHECK(told >= asked && told <= malloc_usable_size((void*)block));
  CHECK(told < asked + asked / 2 + 4096);
}

static void sizes_told(void) {
  static const char* const names[] = {"malloc_size",
                                      "tc_malloc_size",
                                      "mi_usable_size",
                                      "mi_malloc_size",
                                      "mi_malloc_usable_size",
                                      "sallocx",
                                      "MallocExtension_GetAllocatedSize"};
  size_t (*sallocx)(const void*, int) = (size_t (*)(const void*, int))find("sallocx");
  for (unsigned i = 0; i < kSizes; ++i) {
    void* block = made(sizes[i], i);
    for (unsigned n = 0; n < sizeof names / sizeof *names; ++n) {
      const int jemalloc = strcmp(names[n], "sallocx") == 0 && sallocx != NULL;
      check_size(block, sizes[i], jemalloc ? sallocx(block, 0) : size_by(names[n], block));
    }
    CHECK(filled(block, sizes[i], i));
    free(block);
  }
}

static void freed(void) {
  static const char* const names[] = {"cfree", "tc_free", "tc_cfree", "mi_free", "mi_cfree"};
  for (unsigned n = 0; n < sizeof names / sizeof *names; ++n) {
    void* blocks[kSizes];
    for (unsigned i = 0; i < kSizes; ++i)
      blocks[i] = made(sizes[i], i);
    for (unsigned i = 0; i < kSizes; ++i) {
      CHECK(filled(blocks[i], sizes[i], i));
      free_by(names[n], blocks[i]);
    }
  }
}

static void freed_with_size(void) {
  void (*sdallocx)(void*, size_t, int) = (void (*)(void*, size_t, int))find("sdallocx");
  void (*dallocx)(void*, int) = (void (*)(void*, int))find("dallocx");
  void (*tc)(void*, size_t) = (void (*)(void*, size_t))find("tc_free_sized");
  void (*mi)(void*, size_t) = (void (*)(void*, size_t))find("mi_free_size");
  for (unsigned i = 0; i < kSizes; ++i) {
    void* blocks[4] = {made(sizes[i], 1), made(sizes[i], 2), made(sizes[i], 3), made(sizes[i], 4)};
    sdallocx != NULL ? sdallocx(blocks[0], sizes[i], 0) : free(blocks[0]);
    dallocx != NULL ? dallocx(blocks[1], 0) : free(blocks[1]);
    tc != NULL ? tc(blocks[2], sizes[i]) : free(blocks[2]);
    mi != NULL ? mi(blocks[3], sizes[i]) : free(blocks[3]);
  }
}

// As folly's containers do where they find jemalloc: in place if that can be, else by another block.
static void resized(void) {
  size_t (*xallocx)(void*, size_t, size_t, int) =
      (size_t (*)(void*, size_t, size_t, int))find("xallocx");
  void* (*rallocx)(void*, size_t, int) = (void* (*)(void*, size_t, int))find("rallocx");
  size_t (*nallocx)(size_t, int) = (size_t (*)(size_t, int))find("nallocx");
  void (*sdallocx)(void*, size_t, int) = (void (*)(void*, size_t, int))find("sdallocx");
  if (xallocx == NULL || rallocx == NULL || nallocx == NULL || sdallocx == NULL)
    return;
  for (unsigned i = 0; i < kSizes; ++i) {
    const size_t large = 2 * sizes[i];
    const int aligned = 16, zero = 64;  // the logarithm of 64 KiB, and MALLOCX_ZERO
    unsigned char* block = made(sizes[i], i);
    const size_t got = xallocx(block, large, 0, 0);
    CHECK(got >= sizes[i] && filled(block, sizes[i], i));
    block = rallocx(block, large, 0);
    CHECK(block != NULL && filled(block, sizes[i], i));
    fill(block, large, i + 1);
    block = rallocx(block, 4 * large, aligned | zero);
    CHECK(block != NULL && (uintptr_t)block % KIB(64) == 0 && filled(block, large, i + 1));
    CHECK(block[4 * large - 1] == 0);
    sdallocx(block, nallocx(4 * large, aligned), aligned);
  }
}

// A place of the slab is asked for its size, and freed by each.
static void* of_a_slab(void* nothing) {
  static const char* const names[] = {"tc_free", "mi_free", "cfree"};
  void* blocks[kStepCount];
  learn_steps();
  for (unsigned n = 0; n < sizeof names / sizeof *names; ++n) {
    take_served_steps(blocks);
    for (unsigned i = 0; i < kStepCount; ++i) {
      check_size(blocks[i], step_size(i), size_by("malloc_size", blocks[i]));
      check_size(blocks[i], step_size(i), size_by("mi_usable_size", blocks[i]));
    }
    for (unsigned i = 0; i < kStepCount; ++i) {
      CHECK(filled(blocks[i], step_size(i), i));
      free_by(names[n], blocks[i]);
    }
    learn_steps();
  }
  return nothing;
}

static void found_only_with_their_allocator(void) {
  static const char* const rows[][2] = {
      {"jemalloc", "sallocx"},        {"jemalloc", "sdallocx"}, {"jemalloc", "xallocx"},
      {"jemalloc", "rallocx"},        {"jemalloc", "dallocx"},  {"tcmalloc", "tc_free"},
      {"tcmalloc", "tc_malloc_size"}, {"mimalloc", "mi_free"},  {"mimalloc", "mi_usable_size"}};
  const char* next = getenv("NEXT_ALLOCATOR");
  for (unsigned i = 0; i < sizeof rows / sizeof *rows; ++i)
    CHECK((find(rows[i][1]) != NULL) == (next != NULL && strcmp(next, rows[i][0]) == 0));
  CHECK(find("mallctl") == NULL || (next != NULL && strcmp(next, "jemalloc") == 0));
}

int main(void) {
  setvbuf(stdout, NULL, _IONBF, 0);
  found_only_with_their_allocator();
  puts("found only with their allocator ok");
  for (int i = 0; i < 8; ++i) {  // beyond the first calls of a process, which are not ours
    sizes_told();
    freed();
    freed_with_size();
    resized();
  }
  puts("sizes and frees ok");
  pthread_t thread;  // sequences are learned per thread
  CHECK(pthread_create(&thread, NULL, of_a_slab, NULL) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
  puts("blocks of a slab ok");
  return 0;
}
