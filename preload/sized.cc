// Functions that are built on realloc and free. Hot.
//
// An allocator that stands before this library may have none of them: its blocks come here, and go
// to its realloc and free.
#include <cerrno>
#include <cstdint>

#include "preload/process.h"
#include "preload/shim.h"
#include "src/engine/misuse.h"

namespace memo::shim {

void* reallocarray(void* pointer, std::size_t count, std::size_t size) {
  std::size_t bytes = 0;
  if (__builtin_mul_overflow(count, size, &bytes)) {
    errno = ENOMEM;
    return nullptr;
  }
  return g_process.preceding.realloc != nullptr ? g_process.preceding.realloc(pointer, bytes)
                                                : realloc(pointer, bytes);
}

// C++'s sized operator delete does not come here: libstdc++ and libc++ call free from it.
void free_sized(void* pointer, std::size_t size) {
  const Engine& engine = g_process.engine;
  if (engine.owns(pointer)) {
    if (engine.size(pointer) == 0) [[unlikely]] {
      report_pointer(engine, "free_sized", pointer);
    }
    if (!engine.may_have_size(pointer, size)) [[unlikely]] {
      report_size(engine, "free_sized", pointer, size);
    }
  }
  g_process.preceding.free != nullptr ? g_process.preceding.free(pointer) : free(pointer);
}

void free_aligned_sized(void* pointer, std::size_t alignment, std::size_t size) {
  const Engine& engine = g_process.engine;
  if (engine.owns(pointer) && engine.size(pointer) != 0 && alignment != 0 &&
      reinterpret_cast<std::uint64_t>(pointer) % alignment != 0) [[unlikely]] {
    report_alignment(engine, "free_aligned_sized", pointer, alignment);
  }
  free_sized(pointer, size);
}

}  // namespace memo::shim
