// dl_iterate_phdr, intercepted to know when the host's code runs under the dynamic linker's lock.
// Cold.
//
// A large allocation in such a callback must not wait for anything that another thread holds while
// it waits for that lock: pthread_create takes the lock on thread-local storage, which dlopen holds
// while it takes this one.
#include <link.h>

#include "preload/process.h"
#include "preload/shim.h"
#include "src/base/guard.h"

#ifndef MEMO_NAME
#define MEMO_NAME(name) name
#endif

// The callback's exceptions pass through this frame, which has nothing to clean up.
extern "C" __attribute__((visibility("default"))) int MEMO_NAME(dl_iterate_phdr)(
    int (*callback)(dl_phdr_info*, std::size_t, void*), void* data) {
  memo::shim::find_next_allocator();
  const std::uint64_t outer = memo::t_state.walk;
  memo::t_state.walk = reinterpret_cast<std::uint64_t>(__builtin_frame_address(0));
  const int result = memo::g_process.next.dl_iterate_phdr(callback, data);
  memo::t_state.walk = outer;
  return result;
}
