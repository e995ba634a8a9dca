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
void* reallocate(void* pointer, std::size_t size, unsigned flags) {
  const std::size_t alignment = std::size_t{1} << (flags & 63U);
  const bool zero = (flags & 64U) != 0;
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

// A function of the underlying allocator for blocks that are not ours, `otherwise` where it has
// none.
#define MEMO_ASK(name, arguments, pointer, otherwise)        \
  if (!is_ours(pointer) && g_process.next.name != nullptr) { \
    return g_process.next.name arguments;                    \
  }                                                          \
  return otherwise

#define MEMO_SIZE_OF(name, type)                                   \
  MEMO_EXPORT std::size_t MEMO_NAME(name)(type pointer) noexcept { \
    MEMO_ASK(name, (pointer), pointer, usable(pointer));           \
  }
MEMO_SIZE_OF(malloc_size, const void*)
MEMO_SIZE_OF(tc_malloc_size, void*)
MEMO_SIZE_OF(MallocExtension_GetAllocatedSize, const void*)
MEMO_SIZE_OF(mi_usable_size, const void*)
MEMO_SIZE_OF(mi_malloc_size, const void*)
MEMO_SIZE_OF(mi_malloc_usable_size, const void*)

#define MEMO_FREE(name)                                      \
  MEMO_EXPORT void MEMO_NAME(name)(void* pointer) noexcept { \
    MEMO_ASK(name, (pointer), pointer, shim::free(pointer)); \
  }
MEMO_FREE(tc_free)
MEMO_FREE(tc_cfree)
MEMO_FREE(mi_free)
MEMO_FREE(mi_cfree)

// glibc's own is no name that is found any more, but old programs are bound to it.
MEMO_EXPORT void MEMO_NAME(cfree)(void* pointer) noexcept {
  shim::free(pointer);
}

MEMO_EXPORT std::size_t MEMO_NAME(sallocx)(const void* pointer, int flags) noexcept {
  MEMO_ASK(sallocx, (pointer, flags), pointer, usable(pointer));
}

MEMO_EXPORT void MEMO_NAME(dallocx)(void* pointer, int flags) noexcept {
  MEMO_ASK(dallocx, (pointer, flags), pointer, shim::free(pointer));
}

// In place a block of ours is never resized: the caller asks for another one then.
MEMO_EXPORT std::size_t MEMO_NAME(xallocx)(void* pointer, std::size_t size, std::size_t extra,
                                           int flags) noexcept {
  MEMO_ASK(xallocx, (pointer, size, extra, flags), pointer, usable(pointer));
}

MEMO_EXPORT void* MEMO_NAME(rallocx)(void* pointer, std::size_t size, int flags) noexcept {
  MEMO_ASK(rallocx, (pointer, size, flags), pointer,
           reallocate(pointer, size, static_cast<unsigned>(flags)));
}

// The size may be any up to what the allocator says that it would have given for the one asked for.
MEMO_EXPORT void MEMO_NAME(sdallocx)(void* pointer, std::size_t size, int flags) noexcept {
  MEMO_ASK(sdallocx, (pointer, size, flags), pointer, shim::free(pointer));
}

MEMO_EXPORT void MEMO_NAME(tc_free_sized)(void* pointer, std::size_t size) noexcept {
  MEMO_ASK(tc_free_sized, (pointer, size), pointer, shim::free(pointer));
}

MEMO_EXPORT void MEMO_NAME(mi_free_size)(void* pointer, std::size_t size) noexcept {
  MEMO_ASK(mi_free_size, (pointer, size), pointer, shim::free(pointer));
}

MEMO_EXPORT void MEMO_NAME(mi_free_aligned)(void* pointer, std::size_t alignment) noexcept {
  MEMO_ASK(mi_free_aligned, (pointer, alignment), pointer, shim::free(pointer));
}

MEMO_EXPORT void MEMO_NAME(mi_free_size_aligned)(void* pointer, std::size_t size,
                                                 std::size_t alignment) noexcept {
  MEMO_ASK(mi_free_size_aligned, (pointer, size, alignment), pointer, shim::free(pointer));
}
