// Objects that are loaded with RTLD_DEEPBIND: they get malloc and free of the C library, which they
// need themselves, and not of this one. A block of ours that they free ends the program; nobody
// else can tell. Cold.
#include <dlfcn.h>

#include "preload/process.h"
#include "preload/shim.h"
#include "src/base/message.h"

namespace memo {
// The first call of all may come before the next functions are known.
void shim::note_deep_binding(const char* file) {
  find_next_allocator();
  const bool serves = g_process.threshold != UINT64_MAX && g_process.threshold != 0;
  if (!serves || file == nullptr) {
    return;
  }
  g_process.engine.lanes.passed_on.deep_bound.add_from_any();
  if (!g_process.once.deep_binding.exchange(true)) {
    Line() << file
           << " is loaded with RTLD_DEEPBIND: its malloc and free are the C library's, and a block "
              "of this library that it frees ends the program; MEMOMALLOC_DISABLE=1 then helps";
  }
}

}  // namespace memo
