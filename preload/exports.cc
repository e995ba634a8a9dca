// What the dynamic linker sees: each entry point in a line or two, the fast paths in full. Hot.
//
// Below the threshold malloc is one comparison and a jump, free one range check and a jump.
// MEMO_NAME lets tests build the same functions under a prefix and link them.
#include <dlfcn.h>
#include <cstddef>
#include <cstdint>

#include "memomalloc/memomalloc.h"
#include "preload/c10.h"
#include "preload/lifecycle.h"
#include "preload/numpy.h"
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

// Refused memory, the next allocator is asked again the slow way.
MEMO_EXPORT void* MEMO_NAME(realloc)(void* pointer, std::size_t size) noexcept {
  const auto at = reinterpret_cast<std::uint64_t>(pointer);
  if (size < g_process.fast_below && at != 0 &&
      at < __atomic_load_n(&g_process.lowest, __ATOMIC_RELAXED)) [[likely]] {
    void* const block = g_process.next.realloc(pointer, size);
    if (block != nullptr || size == 0) [[likely]] {
      return block;
    }
  }
  return shim::realloc(pointer, size);
}

MEMO_EXPORT void* MEMO_NAME(aligned_alloc)(std::size_t alignment, std::size_t size) noexcept {
  return shim::aligned_alloc(alignment, size, __builtin_return_address(0));
}

// The last call must stay a jump: the C library looks for $ORIGIN and RUNPATH by who has called.
MEMO_EXPORT void* MEMO_NAME(dlopen)(const char* file, int mode) noexcept {
  if ((mode & RTLD_DEEPBIND) != 0 || g_process.next.dlopen == nullptr) [[unlikely]] {
    shim::note_deep_binding(file);
  }
  return g_process.next.dlopen(file, mode);
}

#define ENTRY(name, kind, result, parameters, arguments) \
  MEMO_EXPORT result MEMO_NAME(name)                     \
  parameters noexcept {                                  \
    return shim::name arguments;                         \
  }
#include "preload/hooks.def"

MEMO_EXPORT unsigned MEMO_NAME(la_version)(unsigned version) {
  return memo::load_as_auditor(version);
}

// c10::alloc_cpu and c10::free_cpu of torch, as C++ names them. The first may throw.
// NOLINTBEGIN(readability-identifier-naming,bugprone-reserved-identifier)
MEMO_EXPORT void* MEMO_NAME(_ZN3c109alloc_cpuEm)(std::size_t size) {
  return memo::c10_alloc(size, __builtin_return_address(0));
}

MEMO_EXPORT void MEMO_NAME(_ZN3c108free_cpuEPv)(void* pointer) {
  memo::c10_free(pointer, __builtin_return_address(0));
}
// NOLINTEND(readability-identifier-naming,bugprone-reserved-identifier)

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

MEMO_EXPORT const void* memomalloc_numpy_handler() {
  return &memo::numpy_handler();
}
