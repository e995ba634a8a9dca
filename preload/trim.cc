// Has the underlying allocator release what it keeps. Cold; any thread.
#include "preload/process.h"
#include "preload/shim.h"
#include "src/base/interrupts.h"
#include "src/base/os.h"

namespace memo::shim {
namespace {

// Without interrupts: a large call of a handler in its middle may need the underlying allocator for
// a plan, and would wait for the locks that the frame below it has.
int trim_uninterrupted(std::size_t pad) {
  const NoInterrupts quiet;
  return g_process.next.malloc_trim(pad);
}

}  // namespace

void trim_next() {
  if (!g_process.bare_child && g_process.next.trims()) {
    const os::NoCancellation whole;  // glibc's first call asks for random numbers
    trim_uninterrupted(0);
  }
}

int malloc_trim(std::size_t pad) {
  const bool ours = g_process.engine.lanes.opened() && g_process.engine.give_back.trim();
  find_next_allocator();
  const bool theirs = g_process.next.malloc_trim != nullptr && trim_uninterrupted(pad) != 0;
  return theirs || ours ? 1 : 0;
}

}  // namespace memo::shim
