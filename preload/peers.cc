// Other allocators' own functions on blocks of ours. Hot.
//
// Programs that find jemalloc, tcmalloc or mimalloc in the process ask it for the size of malloc's
// blocks, or free and resize them by its functions, which know nothing of blocks of ours. A block
// of ours is treated as the function's manual says; any other goes to the next allocator's
// function. Where that has none, names that were bound before preload/hide.cc took them away still
// work, on what each allocator has: malloc, realloc, free and malloc_usable_size.
#include <cerrno>
#include <cstdint>
#include <cstring>

#include "preload/process.h"
#include "preload/shim.h"
#include "src/base/bits.h"

#ifndef MEMO_NAME
#define MEMO_NAME(name) name
#endif
#define MEMO_EXPORT extern "C" __attribute__((visibility("default")))

using memo::g_process;
namespace shim = memo::shim;

namespace {

constexpr int kAlignmentBits = 0x3F;  // of jemalloc's flags: MALLOCX_LG_ALIGN
constexpr int kZeroFlag = 0x40;       // MALLOCX_ZERO

bool is_ours(const void* pointer) {
  shim::find_next_allocator();
  memo::find_peers(g_process.next);
  return g_process.engine.owns(pointer) || g_process.bootstrap.owns(pointer);
}

std::size_t usable(const void* pointer) {
  return shim::malloc_usable_size(const_cast<void*>(pointer));
}

bool is_large(std::size_t size) {
  return size >= g_process.threshold && size <= PTRDIFF_MAX;
}

// What malloc gives for `size`: for a block of ours whole granules; else tried. By jemalloc's flags
// an alignment may ask for more.
std::size_t good_size(std::size_t size, int flags = 0) {
  const std::size_t alignment = 1ULL << (flags & kAlignmentBits);
  const bool aligned = alignment > alignof(std::max_align_t) && size <= SIZE_MAX - alignment;
  const std::size_t bytes = aligned ? memo::round_up(size, alignment) : size;
  if (is_large(bytes)) {
    return memo::round_up(bytes, memo::kGranule);
  }
  void* block = shim::malloc(bytes);
  const std::size_t good = block == nullptr ? 0 : usable(block);
  shim::free(block);
  return good;
}

// Changes the size in place; false if the block would have to move.
bool resize_in_place(void* pointer, std::size_t size) {
  const int saved = errno;
  const bool done = size != 0 && size <= PTRDIFF_MAX && g_process.engine.owns(pointer) &&
                    g_process.engine.resize(pointer, size);
  errno = saved;
  return done;
}

// realloc with an alignment, whose new bytes are zero if wanted. The size before is the usable one,
// as jemalloc(3) says of MALLOCX_ZERO. nullptr: no memory, and the block stays.
void* resize(void* pointer, std::size_t size, std::size_t alignment, bool zero) {
  const std::size_t before = pointer == nullptr ? 0 : usable(pointer);
  void* block = pointer;
  if (alignment <= alignof(std::max_align_t)) {
    block = shim::realloc(pointer, size == 0 ? 1 : size);
  } else if (reinterpret_cast<std::uintptr_t>(pointer) % alignment != 0 || size > before ||
             size < before / 2) {
    block = shim::memalign(alignment, size == 0 ? 1 : size);
    if (block != nullptr && pointer != nullptr) {
      std::memcpy(block, pointer, before < size ? before : size);
      shim::free(pointer);
    }
  }
  const std::size_t after = block == nullptr || !zero ? 0 : usable(block);
  if (after > before) {
    std::memset(static_cast<char*>(block) + before, 0, after - before);
  }
  return block;
}

void* or_freed(void* block, void* pointer) {
  if (block == nullptr) {
    shim::free(pointer);
  }
  return block;
}

// The product, or more than any block has.
std::size_t product(std::size_t count, std::size_t size) {
  std::size_t bytes = 0;
  return __builtin_mul_overflow(count, size, &bytes) ? SIZE_MAX : bytes;
}

}  // namespace

// A function of the next allocator for blocks that are not ours, `otherwise` where it has none.
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
MEMO_FREE(cfree)
MEMO_FREE(tc_free)
MEMO_FREE(tc_cfree)
MEMO_FREE(mi_free)
MEMO_FREE(mi_cfree)

// Blocks of ours come in whole granules, whatever the classes of the next allocator are.
#define MEMO_GOOD_SIZE(name, parameters, arguments)                               \
  MEMO_EXPORT std::size_t MEMO_NAME(name)                                         \
  parameters noexcept {                                                           \
    if (!is_ours(nullptr) && !is_large(size) && g_process.next.name != nullptr) { \
      return g_process.next.name arguments;                                       \
    }                                                                             \
    return good_size arguments;                                                   \
  }
MEMO_GOOD_SIZE(malloc_good_size, (std::size_t size), (size))
MEMO_GOOD_SIZE(mi_good_size, (std::size_t size), (size))
MEMO_GOOD_SIZE(mi_malloc_good_size, (std::size_t size), (size))
MEMO_GOOD_SIZE(nallocx, (std::size_t size, int flags), (size, flags))
MEMO_GOOD_SIZE(tc_nallocx, (std::size_t size, int flags), (size, flags))

MEMO_EXPORT std::size_t MEMO_NAME(sallocx)(const void* pointer, int flags) noexcept {
  MEMO_ASK(sallocx, (pointer, flags), pointer, usable(pointer));
}

MEMO_EXPORT void MEMO_NAME(dallocx)(void* pointer, int flags) noexcept {
  MEMO_ASK(dallocx, (pointer, flags), pointer, shim::free(pointer));
}

MEMO_EXPORT void MEMO_NAME(sdallocx)(void* pointer, std::size_t size, int flags) noexcept {
  MEMO_ASK(sdallocx, (pointer, size, flags), pointer, shim::free_sized(pointer, size));
}

MEMO_EXPORT void* MEMO_NAME(rallocx)(void* pointer, std::size_t size, int flags) noexcept {
  MEMO_ASK(rallocx, (pointer, size, flags), pointer,
           resize(pointer, size, 1ULL << (flags & kAlignmentBits), (flags & kZeroFlag) != 0));
}

// In place only; tells the size that the block has then.
MEMO_EXPORT std::size_t MEMO_NAME(xallocx)(void* pointer, std::size_t size, std::size_t extra,
                                           int flags) noexcept {
  if (!is_ours(pointer) && g_process.next.xallocx != nullptr) {
    return g_process.next.xallocx(pointer, size, extra, flags);
  }
  const std::size_t before = usable(pointer);
  const std::size_t most = size > SIZE_MAX - extra ? SIZE_MAX : size + extra;
  if (!resize_in_place(pointer, most)) {
    resize_in_place(pointer, size);
  }
  const std::size_t after = usable(pointer);
  if ((flags & kZeroFlag) != 0 && after > before) {
    std::memset(static_cast<char*>(pointer) + before, 0, after - before);
  }
  return after;
}

MEMO_EXPORT void MEMO_NAME(tc_free_sized)(void* pointer, std::size_t size) noexcept {
  MEMO_ASK(tc_free_sized, (pointer, size), pointer, shim::free_sized(pointer, size));
}

MEMO_EXPORT void MEMO_NAME(mi_free_size)(void* pointer, std::size_t size) noexcept {
  MEMO_ASK(mi_free_size, (pointer, size), pointer, shim::free_sized(pointer, size));
}

MEMO_EXPORT void MEMO_NAME(mi_free_aligned)(void* pointer, std::size_t alignment) noexcept {
  MEMO_ASK(mi_free_aligned, (pointer, alignment), pointer, shim::free(pointer));
}

MEMO_EXPORT void MEMO_NAME(mi_free_size_aligned)(void* pointer, std::size_t size,
                                                 std::size_t alignment) noexcept {
  MEMO_ASK(mi_free_size_aligned, (pointer, size, alignment), pointer,
           shim::free_aligned_sized(pointer, alignment, size));
}

MEMO_EXPORT void* MEMO_NAME(tc_realloc)(void* pointer, std::size_t size) noexcept {
  MEMO_ASK(tc_realloc, (pointer, size), pointer, shim::realloc(pointer, size));
}

MEMO_EXPORT void* MEMO_NAME(reallocf)(void* pointer, std::size_t size) noexcept {
  MEMO_ASK(reallocf, (pointer, size), pointer, or_freed(resize(pointer, size, 1, false), pointer));
}

MEMO_EXPORT void* MEMO_NAME(mi_realloc)(void* pointer, std::size_t size) noexcept {
  MEMO_ASK(mi_realloc, (pointer, size), pointer, resize(pointer, size, 1, false));
}

MEMO_EXPORT void* MEMO_NAME(mi_reallocf)(void* pointer, std::size_t size) noexcept {
  MEMO_ASK(mi_reallocf, (pointer, size), pointer,
           or_freed(resize(pointer, size, 1, false), pointer));
}

MEMO_EXPORT void* MEMO_NAME(mi_reallocn)(void* pointer, std::size_t count,
                                         std::size_t size) noexcept {
  MEMO_ASK(mi_reallocn, (pointer, count, size), pointer,
           resize(pointer, product(count, size), 1, false));
}

MEMO_EXPORT void* MEMO_NAME(mi_reallocarray)(void* pointer, std::size_t count,
                                             std::size_t size) noexcept {
  MEMO_ASK(mi_reallocarray, (pointer, count, size), pointer,
           resize(pointer, product(count, size), 1, false));
}

MEMO_EXPORT void* MEMO_NAME(mi_rezalloc)(void* pointer, std::size_t size) noexcept {
  MEMO_ASK(mi_rezalloc, (pointer, size), pointer, resize(pointer, size, 1, true));
}

MEMO_EXPORT void* MEMO_NAME(mi_recalloc)(void* pointer, std::size_t count,
                                         std::size_t size) noexcept {
  MEMO_ASK(mi_recalloc, (pointer, count, size), pointer,
           resize(pointer, product(count, size), 1, true));
}

MEMO_EXPORT void* MEMO_NAME(mi_realloc_aligned)(void* pointer, std::size_t size,
                                                std::size_t alignment) noexcept {
  MEMO_ASK(mi_realloc_aligned, (pointer, size, alignment), pointer,
           resize(pointer, size, alignment, false));
}

MEMO_EXPORT void* MEMO_NAME(mi_rezalloc_aligned)(void* pointer, std::size_t size,
                                                 std::size_t alignment) noexcept {
  MEMO_ASK(mi_rezalloc_aligned, (pointer, size, alignment), pointer,
           resize(pointer, size, alignment, true));
}

// In place only; nullptr if the block would have to move.
MEMO_EXPORT void* MEMO_NAME(mi_expand)(void* pointer, std::size_t size) noexcept {
  MEMO_ASK(mi_expand, (pointer, size), pointer,
           pointer != nullptr && (size <= usable(pointer) || resize_in_place(pointer, size))
               ? pointer
               : nullptr);
}
