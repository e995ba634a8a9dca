#include "preload/trim.h"

#include "preload/process.h"
#include "preload/shim.h"
#include "src/base/interrupts.h"
#include "src/base/os.h"

namespace memo {

void trim_next() {
  if (g_process.bare_child) {
    return;
  }
  const NoInterrupts quiet;
  const os::NoCancellation whole;  // glibc's first call asks for random numbers
  if (g_process.next.malloc_trim != nullptr) {
    g_process.next.malloc_trim(0);
  }
}

namespace shim {

// Without interrupts: a large call of a handler in its middle may need the next allocator for a plan, and would wait
// for the locks that the frame below it has.
int malloc_trim(std::size_t pad) {
  const bool ours = g_process.engine.lanes.opened() && g_process.engine.upkeep.trim();
  find_next_allocator();
  const NoInterrupts quiet;
  const int theirs = g_process.next.malloc_trim != nullptr ? g_process.next.malloc_trim(pad) : 0;
  return ours || theirs != 0 ? 1 : 0;
}

}  // namespace shim
}  // namespace memo
