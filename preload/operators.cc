#include "preload/operators.h"

#include <dlfcn.h>

#include "preload/ours.h"
#include "preload/process.h"
#include "preload/shim.h"
#include "src/base/message.h"

namespace memo {
namespace {

void* take(std::size_t size) {
  return shim::malloc(size);
}
void* take(std::size_t size, const std::nothrow_t&) {
  return shim::malloc(size);
}
void* take(std::size_t size, std::align_val_t alignment) {
  return shim::memalign(static_cast<std::size_t>(alignment), size);
}
void* take(std::size_t size, std::align_val_t alignment, const std::nothrow_t&) {
  return shim::memalign(static_cast<std::size_t>(alignment), size);
}

// An operator before that of the underlying allocator, `kNext` in the table. Where there is no
// memory, it is the latter that has to ask the new_handler, and may throw.
template <auto kNext, typename Function>
struct Ours;

template <auto kNext, typename... More>
struct Ours<kNext, void* (*)(std::size_t, More...)> {
  static void* call(std::size_t size, More... more) {
    if (size < g_process.fast_below) [[likely]] {
      return (g_process.next.*kNext)(size, more...);
    }
    void* block = take(size, more...);
    return block != nullptr ? block : (g_process.next.*kNext)(size, more...);
  }
};

template <auto kNext, typename... More>
struct Ours<kNext, void (*)(void*, More...)> {
  static void call(void* pointer, More... more) {
    if (shim::is_next(pointer)) [[likely]] {
      return (g_process.next.*kNext)(pointer, more...);
    }
    shim::free(pointer);
  }
};

// Where the entry point leads from now on. By dlsym, which takes a lock of the dynamic linker.
template <auto kBound, auto kNext, typename Function>
Function bind(Function next) {
  Next& table = g_process.next;
  const bool own = table.is_own_operator(reinterpret_cast<const void*>(next));
  const Function leads = own ? &Ours<kNext, Function>::call : next;
  __atomic_store_n(&(table.*kNext), next, __ATOMIC_RELAXED);
  __atomic_store_n(&(g_operators.*kBound), leads, __ATOMIC_RELEASE);
  return leads;
}

template <typename Function>
Function find(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

// An entry point's first call.
template <auto kBound, auto kNext, const char* kName, typename Function>
struct First;

template <auto kBound, auto kNext, const char* kName, typename Result, typename... Parameters>
struct First<kBound, kNext, kName, Result (*)(Parameters...)> {
  static Result call(Parameters... parameters) {
    shim::find_next_allocator();
    const auto next = find<Result (*)(Parameters...)>(kName);
    if (next == nullptr) {
      fail("C++'s operators new and delete are called, and no object that follows has them");
    }
    return bind<kBound, kNext>(next)(parameters...);
  }
};

#define HOOK_Operator(name) constexpr char k##name[] = #name;
#include "preload/hooks.def"

}  // namespace

constinit Operators g_operators{
#define HOOK_Operator(name) \
  .name = &First<&Operators::name, &Next::name, k##name, decltype(&::name)>::call,
#include "preload/hooks.def"
};

void open_operators() {
  if (g_process.next.of_libc) {
    return;
  }
#define HOOK_Operator(name)                               \
  if (const auto next = find<decltype(&::name)>(#name)) { \
    bind<&Operators::name, &Next::name>(next);            \
  }
#include "preload/hooks.def"
}

}  // namespace memo
