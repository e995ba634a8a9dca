#include "preload/next.h"

#include <dlfcn.h>

#include "src/base/message.h"

namespace memo {
namespace {

enum class Kind { Required, Optional };

template <typename Function>
Function find(const char* name, Kind kind) {
  void* symbol = dlsym(RTLD_NEXT, name);
  if (symbol == nullptr && kind == Kind::Required) {
    fail("no allocator follows in the link chain: is this a static program?");
  }
  return reinterpret_cast<Function>(symbol);
}

}  // namespace

void find_next(Next& next) {
  Next found;
#define MEMO_FIND_Required(name) found.name = find<decltype(found.name)>(#name, Kind::Required);
#define MEMO_FIND_Optional(name) found.name = find<decltype(found.name)>(#name, Kind::Optional);
#define MEMO_FIND_Own(name)
#define HOOK(name, kind) MEMO_FIND_##kind(name)
#include "preload/hooks.def"
#undef HOOK
#undef MEMO_FIND_Required
#undef MEMO_FIND_Optional
#undef MEMO_FIND_Own
  const auto first = found.malloc;
  found.malloc = nullptr;
  next = found;
  __atomic_store_n(&next.malloc, first, __ATOMIC_RELEASE);
}

}  // namespace memo
