// What the dynamic linker sees: each entry point in a line or two, the fast paths in full. Hot.
//
// Below the threshold malloc is one comparison and a jump, free one range check and a jump.
// MEMO_NAME lets tests build the same functions under a prefix and link them.
#include <cstddef>
#include <cstdint>

#include "memomalloc/memomalloc.h"
#include "preload/lifecycle.h"
#include "preload/process.h"
#include "preload/shim.h"

#ifndef MEMO_NAME
#define MEMO_NAME(name) name
#endif
#define MEMO_EXPORT extern "C" __attribute__((visibility("default")))

// The headers' attributes differ between systems (nonnull, noexcept); ours follow from the
// definitions.
#pragma GCC diagnostic ignored "-Wmissing-attributes"

using memo::g_process;
namespace shim = memo::shim;

MEMO_EXPORT void* MEMO_NAME(malloc)(std::size_t size) noexcept {
  if (size < g_process.fast_below) [[likely]] {
    return g_process.next.malloc(size);
  }
  return shim::malloc(size);
}

MEMO_EXPORT void MEMO_NAME(free)(void* pointer) noexcept {
  if (reinterpret_cast<std::uint64_t>(pointer) <
      __atomic_load_n(&g_process.lowest, __ATOMIC_RELAXED)) [[likely]] {
    return g_process.next.free(pointer);
  }
  return shim::free(pointer);
}

MEMO_EXPORT void* MEMO_NAME(calloc)(std::size_t count, std::size_t size) noexcept {
  return shim::calloc(count, size);
}

MEMO_EXPORT void* MEMO_NAME(realloc)(void* pointer, std::size_t size) noexcept {
  return shim::realloc(pointer, size);
}

MEMO_EXPORT void* MEMO_NAME(reallocarray)(void* pointer, std::size_t count,
                                          std::size_t size) noexcept {
  return shim::reallocarray(pointer, count, size);
}

MEMO_EXPORT int MEMO_NAME(posix_memalign)(void** result, std::size_t alignment,
                                          std::size_t size) noexcept {
  return shim::posix_memalign(result, alignment, size);
}

MEMO_EXPORT void* MEMO_NAME(aligned_alloc)(std::size_t alignment, std::size_t size) noexcept {
  return shim::aligned_alloc(alignment, size, __builtin_return_address(0));
}

MEMO_EXPORT void* MEMO_NAME(memalign)(std::size_t alignment, std::size_t size) noexcept {
  return shim::memalign(alignment, size);
}

MEMO_EXPORT void* MEMO_NAME(valloc)(std::size_t size) noexcept {
  return shim::valloc(size);
}

MEMO_EXPORT void* MEMO_NAME(pvalloc)(std::size_t size) noexcept {
  return shim::pvalloc(size);
}

MEMO_EXPORT std::size_t MEMO_NAME(malloc_usable_size)(void* pointer) noexcept {
  return shim::malloc_usable_size(pointer);
}

MEMO_EXPORT int MEMO_NAME(malloc_trim)(std::size_t pad) noexcept {
  return shim::malloc_trim(pad);
}

MEMO_EXPORT void MEMO_NAME(free_sized)(void* pointer, std::size_t size) noexcept {
  shim::free_sized(pointer, size);
}

MEMO_EXPORT void MEMO_NAME(free_aligned_sized)(void* pointer, std::size_t alignment,
                                               std::size_t size) noexcept {
  shim::free_aligned_sized(pointer, alignment, size);
}

MEMO_EXPORT void MEMO_NAME(_exit)(int code) {
  memo::exit_now(code);
}

MEMO_EXPORT void MEMO_NAME(_Exit)(int code) noexcept {
  memo::exit_now(code);
}

MEMO_EXPORT const char* memomalloc_version() {
  return MEMO_VERSION;
}

MEMO_EXPORT void memomalloc_iteration() {
  g_process.engine.iteration();
}

MEMO_EXPORT std::size_t memomalloc_stats_json(char* buffer, std::size_t size) {
  return memo::stats_json(buffer, size);
}

MEMO_EXPORT void memomalloc_release() {
  memo::release();
}
