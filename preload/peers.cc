// Other allocators' own functions on blocks of ours. Hot.
//
// Programs that find jemalloc, tcmalloc or mimalloc in the process ask it for the size of malloc's
// blocks, or free them by its functions, which know nothing of blocks of ours. A block of ours is
// treated as the function's manual says; any other goes to the underlying allocator's function.
// Where that has none, names that were bound before preload/hide.cc took them away still work, on
// what each allocator has: free and malloc_usable_size.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "preload/process.h"
#include "preload/shim.h"

#ifndef MEMO_NAME
#define MEMO_NAME(name) name
#endif
#define MEMO_EXPORT extern "C" __attribute__((visibility("default")))

using memo::g_process;
namespace shim = memo::shim;

namespace {

bool is_ours(const void* pointer) {
  shim::find_next_allocator();
  memo::find_peers(g_process.next);
  return g_process.engine.owns(pointer) || g_process.bootstrap.owns(pointer);
}

std::size_t usable(const void* pointer) {
  return shim::malloc_usable_size(const_cast<void*>(pointer));
}

// As jemalloc's rallocx, whose flags are the binary logarithm of an alignment, and whether what is
// new is to be zero.
void* reallocate(void* pointer, std::size_t size, int flags) {
  const std::size_t alignment = std::size_t{1} << (static_cast<unsigned>(flags) & 63U);
  const bool zero = (static_cast<unsigned>(flags) & 64U) != 0;
  if (alignment == 1 && !zero) {
    return shim::realloc(pointer, size);
  }
  void* const moved = shim::memalign(std::max(alignment, alignof(std::max_align_t)), size);
  if (moved != nullptr) {
    const std::size_t kept = std::min(usable(pointer), size);
    std::memcpy(moved, pointer, kept);
    std::memset(static_cast<char*>(moved) + kept, 0, zero ? size - kept : 0);
    shim::free(pointer);
  }
  return moved;
}

}  // namespace

// What is not ours goes to the underlying allocator's function, and where it has none, the way of
// what is ours.
#define PEER(name, kind, result, parameters, arguments, otherwise) \
  MEMO_EXPORT result MEMO_NAME(name)                               \
  parameters noexcept {                                            \
    if (!is_ours(pointer) && g_process.next.name != nullptr) {     \
      return g_process.next.name arguments;                        \
    }                                                              \
    return otherwise;                                              \
  }
#include "preload/hooks.def"

// glibc's own is no name that is found any more, but old programs are bound to it.
MEMO_EXPORT void MEMO_NAME(cfree)(void* pointer) noexcept {
  shim::free(pointer);
}
