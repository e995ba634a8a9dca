#include "preload/preceding.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <atomic>

#include "preload/process.h"

namespace memo {
namespace {

void note_free(void* pointer) noexcept {
  g_process.preceding.came = g_process.preceding.came || pointer == g_process.preceding.probe;
  g_process.preceding.next_free(pointer);
}

// The underlying allocator must not get the probe's block: it may not be the one that made it.
void* note_realloc(void* pointer, std::size_t size) noexcept {
  if (pointer != g_process.preceding.probe || pointer == nullptr) {
    return g_process.preceding.next_realloc(pointer, size);
  }
  g_process.preceding.came = true;
  return pointer;
}

template <typename Function>
void put(Function& place, Function function) {
  __atomic_store_n(&place, function, __ATOMIC_RELEASE);
}

// By the name that the dynamic linker binds for everybody: a call by its own name may be known to
// the compiler.
template <typename Function>
Function as_everybody(const char* name, Function) {
  return reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
}

// By a small block, which everybody's malloc gives. Threads that constructors have started may call
// meanwhile: their calls are passed on.
bool what_is_freed_comes_here() {
  Next& next = g_process.next;
  g_process.preceding.next_free = next.free;
  g_process.preceding.next_realloc = next.realloc;
  put(next.free, &note_free);
  put(next.realloc, &note_realloc);
  constexpr std::size_t kSmall = 24;
  g_process.preceding.probe = as_everybody("malloc", &::malloc)(kSmall);
  g_process.preceding.came = false;
  g_process.preceding.probe =
      as_everybody("realloc", &::realloc)(g_process.preceding.probe, kSmall);
  const bool resized =
      g_process.preceding.came.exchange(false);  // or freed, by a realloc that copies
  as_everybody("free", &::free)(g_process.preceding.probe);
  put(next.free, g_process.preceding.next_free);
  put(next.realloc, g_process.preceding.next_realloc);
  return resized && g_process.preceding.came;
}

// An address outside need not be another's function: a program at a fixed address has one of its
// own for each function whose address it takes.
bool names_are_ours(const Extent& own) {
  return own.contains(dlsym(RTLD_DEFAULT, "free")) && own.contains(dlsym(RTLD_DEFAULT, "realloc"));
}

// Loaded by dlopen: a block that is asked for by the handle is freed by it.
bool loaded_late() {
  void* program =
      g_process.next.dlopen != nullptr ? g_process.next.dlopen(nullptr, RTLD_LAZY) : nullptr;
  const bool found = program == nullptr || dlsym(program, "memomalloc_version") != nullptr;
  if (program != nullptr) {
    dlclose(program);
  }
  return !found;
}

}  // namespace

Before find_preceding() {
  const Extent own = extent_of(&g_process, g_process.next.dl_iterate_phdr);
  if (!own.contains(dlsym(RTLD_DEFAULT, "memomalloc_version"))) {
    return Before::kCopy;
  }
  if (names_are_ours(own) || loaded_late() || what_is_freed_comes_here()) {
    return Before::kNothing;
  }
  g_process.preceding.realloc = as_everybody("realloc", &::realloc);
  g_process.preceding.free = as_everybody("free", &::free);
  return Before::kAllocator;
}

}  // namespace memo
