#include "preload/c10_callers.h"

#include <dlfcn.h>
#include <link.h>
#include <cerrno>
#include <cstring>

#include "src/base/guard.h"

namespace memo {
namespace {

constexpr const char* kAlloc = "_ZN3c109alloc_cpuEm";
constexpr const char* kFree = "_ZN3c108free_cpuEPv";
constexpr const char* kZeroFill = "FLAGS_caffe2_cpu_allocator_do_zero_fill";
constexpr const char* kJunkFill = "FLAGS_caffe2_cpu_allocator_do_junk_fill";
constexpr const char* kMovesToNode = "_ZN3c1013IsNUMAEnabledEv";

link_map* object_of(const void* code) {
  Dl_info info;
  void* map = nullptr;
  return dladdr1(code, &info, &map, RTLD_DL_LINKMAP) != 0 ? static_cast<link_map*>(map) : nullptr;
}

// As the dynamic linker binds: whatever follows this library in the global scope, then the scope
// of the object that asks.
class Scope {
 public:
  // Keeps the object loaded: what is found in its scope is remembered.
  explicit Scope(const link_map* object) {
    const auto open = reinterpret_cast<decltype(&::dlopen)>(dlsym(RTLD_NEXT, "dlopen"));
    if (object != nullptr && object->l_name[0] != '\0' && open != nullptr) {
      local_ = open(object->l_name, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
    }
  }

  template <typename Symbol>
  [[nodiscard]] Symbol find(const char* name) const {
    void* symbol = dlsym(RTLD_NEXT, name);
    if (symbol == nullptr && local_ != nullptr) {
      symbol = dlsym(local_, name);
    }
    return reinterpret_cast<Symbol>(symbol);
  }

 private:
  void* local_ = nullptr;  // its reference is never given back
};

// True if an object refers to one of posix_memalign and memalign. What is not defined stands
// before all that the hash table knows.
bool goes_through_malloc(const link_map& object) {
  const Symbols symbols = symbols_of(object.l_ld, object.l_addr);
  if (!symbols.told()) {
    return true;  // not known: then nothing is done about it
  }
  for (std::uint32_t i = 1; i < symbols.hash[1]; ++i) {
    const char* name = symbols.names + symbols.table[i].st_name;
    if (std::strcmp(name, "posix_memalign") == 0 || std::strcmp(name, "memalign") == 0) {
      return true;
    }
  }
  return false;
}

C10 look_up(const void* caller) {
  const RecursionGuard guard;
  const int saved = errno;
  const Scope scope(object_of(caller));
  C10 found;
  found.alloc = scope.find<decltype(found.alloc)>(kAlloc);
  found.free = scope.find<decltype(found.free)>(kFree);
  const link_map* library =
      object_of(found.alloc != nullptr ? reinterpret_cast<const void*>(found.alloc)
                                       : reinterpret_cast<const void*>(found.free));
  if (!found.there() || library == nullptr || library->l_ld == _DYNAMIC) {
    found = {};
  } else if (!goes_through_malloc(*library)) {
    // Blocks that c10 moves to the thread's NUMA node are left to it.
    auto* const moves = scope.find<bool (*)()>(kMovesToNode);
    if (found.alloc != nullptr && found.free != nullptr && (moves == nullptr || !moves())) {
      found.zero_fill = scope.find<const bool*>(kZeroFill);
      found.junk_fill = scope.find<const bool*>(kJunkFill);
      found.zero_fill = found.junk_fill != nullptr ? found.zero_fill : nullptr;
    }
    if (found.zero_fill == nullptr) {
      found.left_alone = library->l_name;
    }
  }
  errno = saved;
  return found;
}

}  // namespace

C10 C10Callers::find(const void* code, decltype(&::dl_iterate_phdr) walk) {
  const auto at = reinterpret_cast<std::uint64_t>(code);
  const std::uint32_t count = count_.load(std::memory_order_acquire);
  for (std::uint32_t i = 0; i < count && i < kCallers; ++i) {
    const Caller& caller = callers_[i];
    if (at < caller.end.load(std::memory_order_acquire) && at >= caller.start) {
      return caller.c10;
    }
  }
  return add(code, walk);
}

C10 C10Callers::add(const void* code, decltype(&::dl_iterate_phdr) walk) {
  C10 c10 = look_up(code);
  // A deleter that is called as the last thing returns to an object that may not know of c10.
  if (!c10.there() && count_.load(std::memory_order_acquire) != 0 &&
      callers_[0].end.load(std::memory_order_acquire) != 0) {
    c10 = callers_[0].c10;
  }
  const Extent extent = extent_of(code, walk);
  if (!c10.there() || extent.end == 0 || count_.load(std::memory_order_relaxed) >= kCallers) {
    return c10;
  }
  const std::uint32_t i = count_.fetch_add(1, std::memory_order_acq_rel);
  if (i < kCallers) {
    callers_[i].start = extent.start;
    callers_[i].c10 = c10;
    callers_[i].end.store(extent.end, std::memory_order_release);
  }
  return c10;
}

}  // namespace memo
