#include "preload/next.h"

#include <dlfcn.h>
#include <link.h>

#include "src/base/check.h"
#include "src/base/message.h"

namespace memo {
namespace {

enum class Kind { kRequired, kOptional };

template <typename Function>
Function find(const char* name, Kind kind) {
  void* symbol = dlsym(RTLD_NEXT, name);
  if (symbol == nullptr && kind == Kind::kRequired) {
    fail("no allocator follows in the link chain: is this a static program?");
  }
  return reinterpret_cast<Function>(symbol);
}

void find_functions(Next& next) {
#define FIND(name, kind) next.name = find<decltype(next.name)>(#name, Kind::kind);
#define HOOK_Required(name) FIND(name, kRequired)
#define HOOK_Optional(name) FIND(name, kOptional)
#include "preload/hooks.def"
}

struct ModuleSearch {
  const void* code;
  Extent found;
};

// Stops at the object that holds the search's code.
int find_object(dl_phdr_info* info, std::size_t, void* data) {
  auto& search = *static_cast<ModuleSearch*>(data);
  Extent object{UINT64_MAX, 0};
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& segment = info->dlpi_phdr[i];
    if (segment.p_type == PT_LOAD) {
      const std::uint64_t first = info->dlpi_addr + segment.p_vaddr;
      object.start = first < object.start ? first : object.start;
      object.end = first + segment.p_memsz > object.end ? first + segment.p_memsz : object.end;
    }
  }
  if (!object.contains(search.code)) {
    return 0;
  }
  search.found = object;
  return 1;
}

// The next object may be another than the one with the operators: a library that counts calls, or a
// second copy of this one. The C++ library is told by its exceptions.
Extent find_operators(const Next& next) {
  const void* aligned_new = dlsym(RTLD_NEXT, "_ZnwmSt11align_val_t");
  const Extent object = extent_of(aligned_new, next.dl_iterate_phdr);
  const bool of_cxx = object.contains(dlsym(RTLD_NEXT, "__cxa_begin_catch"));
  return of_cxx && !next.contains(aligned_new) ? Extent{} : object;
}

}  // namespace

Extent extent_of(const void* code, decltype(&::dl_iterate_phdr) walk) {
  ModuleSearch search{code, {}};
  walk(find_object, &search);
  return search.found;
}

Symbols symbols_of(const ElfW(Dyn) * entry, ElfW(Addr) base) {
  Symbols symbols;
  for (; entry->d_tag != DT_NULL; ++entry) {
    // The dynamic linker has made addresses of these on most machines.
    const ElfW(Addr) at = entry->d_un.d_ptr < base ? entry->d_un.d_ptr + base : entry->d_un.d_ptr;
    if (entry->d_tag == DT_SYMTAB) {
      symbols.table = reinterpret_cast<ElfW(Sym)*>(at);
    } else if (entry->d_tag == DT_STRTAB) {
      symbols.names = reinterpret_cast<const char*>(at);
    } else if (entry->d_tag == DT_GNU_HASH) {
      symbols.hash = reinterpret_cast<const std::uint32_t*>(at);
    }
  }
  return symbols;
}

void find_peers(Next& next) {
  if (__atomic_load_n(&next.peers_known, __ATOMIC_ACQUIRE)) {
    return;
  }
#define HOOK_Peer(name) FIND(name, kOptional)
#include "preload/hooks.def"
#undef FIND
  __atomic_store_n(&next.peers_known, true, __ATOMIC_RELEASE);
}

void find_next(Next& next) {
  // Another copy of this library that stands before this one may ask for it while names are looked
  // up in vain.
  next.dl_iterate_phdr = find<decltype(next.dl_iterate_phdr)>("dl_iterate_phdr", Kind::kRequired);
  Next found;
  find_functions(found);
  found.object = extent_of(reinterpret_cast<const void*>(found.realloc), found.dl_iterate_phdr);
  // The C library has none of these functions, and each failed look-up costs thousands of
  // instructions. gnu_get_libc_version identifies it: no allocator defines that name, while one may
  // define _exit.
  found.of_libc = found.contains(dlsym(RTLD_NEXT, "gnu_get_libc_version"));
  if (!found.of_libc) {
    find_peers(found);
    found.operators = find_operators(found);
  }
  MEMO_DCHECK(found.malloc != nullptr && found.free != nullptr);
  const auto first = found.malloc;
  found.malloc = nullptr;
  next = found;
  __atomic_store_n(&next.malloc, first, __ATOMIC_RELEASE);
}

}  // namespace memo
