// An allocator that cannot tell a block's size, as small ones cannot; what lies in front of a block is another's data.
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
enum { kMost = 1 << 30 };
static char* memory;
static size_t used;
static size_t* sizes;
static void* take(size_t border, size_t bytes) {
  if (memory == NULL) {
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    memory = mmap(NULL, kMost, PROT_READ | PROT_WRITE, flags, -1, 0);
    sizes = mmap(NULL, kMost, PROT_READ | PROT_WRITE, flags, -1, 0);
  }
  border = border < 16 ? 16 : border;
  const size_t at = (used + border - 1) / border * border;
  used = (at + bytes + 31) / 16 * 16;
  sizes[at / 16] = bytes;
  return memory + at;
}
void* malloc(size_t bytes) {
  return take(16, bytes);
}
void free(void* block) {
  (void)block;
}
void* calloc(size_t count, size_t bytes) {
  return take(16, count * bytes);
}
void* memalign(size_t border, size_t bytes) {
  return take(border, bytes);
}
void* aligned_alloc(size_t border, size_t bytes) {
  return take(border, bytes);
}
int posix_memalign(void** block, size_t border, size_t bytes) {
  return (*block = take(border, bytes)) == NULL;
}
void* realloc(void* block, size_t bytes) {
  void* moved = take(16, bytes);
  const size_t before = block != NULL ? sizes[((char*)block - memory) / 16] : 0;
  return memcpy(moved, block != NULL ? block : moved, before < bytes ? before : bytes);
}
