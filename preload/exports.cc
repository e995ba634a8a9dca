// What the dynamic linker sees: each entry point in a line or two, the fast paths in full. Hot.
//
// Below the threshold malloc is one comparison and a jump; free of a block that is not ours, a
// range check or two and a jump. MEMO_NAME lets tests build the same functions under a prefix and
// link them.
#include <dlfcn.h>
#include <link.h>
#include <cstdarg>
#include <cstddef>
#include <cstdint>

#include "memomalloc/memomalloc.h"
#include "preload/c10.h"
#include "preload/lifecycle.h"
#include "preload/operators.h"
#include "preload/ours.h"
#include "preload/process.h"
#include "preload/shim.h"
#include "src/base/guard.h"

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
  if (shim::is_next(pointer)) [[likely]] {
    return g_process.next.free(pointer);
  }
  return shim::free(pointer);
}

MEMO_EXPORT void* MEMO_NAME(calloc)(std::size_t count, std::size_t size) noexcept {
  std::size_t bytes = 0;
  if (!__builtin_mul_overflow(count, size, &bytes) && bytes < g_process.fast_below) [[likely]] {
    return g_process.next.calloc(count, size);
  }
  return shim::calloc(count, size);
}

MEMO_EXPORT void* MEMO_NAME(realloc)(void* pointer, std::size_t size) noexcept {
  if (size < g_process.fast_below && shim::is_next(pointer)) [[likely]] {
    return g_process.next.realloc(pointer, size);
  }
  return shim::realloc(pointer, size);
}

MEMO_EXPORT int MEMO_NAME(posix_memalign)(void** result, std::size_t alignment,
                                          std::size_t size) noexcept {
  if (size < g_process.fast_below) [[likely]] {
    return g_process.next.posix_memalign(result, alignment, size);
  }
  return shim::posix_memalign(result, alignment, size);
}

MEMO_EXPORT void* MEMO_NAME(memalign)(std::size_t alignment, std::size_t size) noexcept {
  if (size < g_process.fast_below) [[likely]] {
    return g_process.next.memalign(alignment, size);
  }
  return shim::memalign(alignment, size);
}

MEMO_EXPORT void* MEMO_NAME(aligned_alloc)(std::size_t alignment, std::size_t size) noexcept {
  if (size < g_process.fast_below) [[likely]] {
    return g_process.next.aligned_alloc(alignment, size);
  }
  return shim::aligned_alloc(alignment, size, __builtin_return_address(0));
}

// The last call must stay a jump: the C library finds $ORIGIN and RUNPATH by its caller's address.
MEMO_EXPORT void* MEMO_NAME(dlopen)(const char* file, int mode) noexcept {
  if ((mode & RTLD_DEEPBIND) != 0 || g_process.next.dlopen == nullptr) [[unlikely]] {
    shim::note_deep_binding(file);
  }
  return g_process.next.dlopen(file, mode);
}

// Notes that the host's code runs under the dynamic linker's lock: a large allocation in such a
// callback must not wait for anything that another thread holds while it waits for that lock.
// pthread_create takes the lock on thread-local storage, which dlopen holds while it takes this
// one. The callback's exceptions pass through this frame, which has nothing to clean up.
MEMO_EXPORT int MEMO_NAME(dl_iterate_phdr)(int (*callback)(dl_phdr_info*, std::size_t, void*),
                                           void* data) {
  shim::find_next_allocator();
  const std::uint64_t outer = memo::t_state.walk;
  memo::t_state.walk = reinterpret_cast<std::uint64_t>(__builtin_frame_address(0));
  const int result = g_process.next.dl_iterate_phdr(callback, data);
  memo::t_state.walk = outer;
  return result;
}

MEMO_EXPORT void* MEMO_NAME(mremap)(void* start, std::size_t bytes, std::size_t to, int flags,
                                    ...) noexcept {
  std::va_list rest;
  va_start(rest, flags);
  void* const place =
      (flags & (MREMAP_FIXED | MREMAP_DONTUNMAP)) != 0 ? va_arg(rest, void*) : nullptr;
  va_end(rest);
  return shim::mremap(start, bytes, to, flags, place);
}

// A thread may be cancelled here.
MEMO_EXPORT ssize_t MEMO_NAME(vmsplice)(int pipe, const struct iovec* parts, std::size_t count,
                                        unsigned flags) {
  return shim::vmsplice(pipe, parts, count, flags);
}

MEMO_EXPORT std::size_t MEMO_NAME(malloc_usable_size)(void* pointer) noexcept {
  if (pointer != nullptr && shim::is_next(pointer)) [[likely]] {
    return g_process.next.malloc_usable_size(pointer);
  }
  return shim::malloc_usable_size(pointer);
}

// GCC 14 takes it that what mlock() is given was to be written before: its declaration says that
// nothing is read there.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#define ENTRY(name, kind, result, parameters, arguments) \
  MEMO_EXPORT result MEMO_NAME(name)                     \
  parameters noexcept {                                  \
    return shim::name arguments;                         \
  }
#include "preload/hooks.def"
#pragma GCC diagnostic pop

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

// C++'s operators new and delete.
#define OPERATOR(name, kind, result, parameters, arguments) \
  MEMO_EXPORT result MEMO_NAME(name) parameters {           \
    return memo::g_operators.name arguments;                \
  }
#include "preload/hooks.def"
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
