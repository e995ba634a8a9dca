// mlockall(), which would lock what the library only reserves as well. Cold; any thread.
#include "src/base/lock_all.h"

#include <cerrno>

#include "preload/process.h"
#include "preload/shim.h"

namespace memo::shim {
namespace {

bool is_c_librarys(const Process& process) {
  return extent_of(reinterpret_cast<const void*>(process.next._exit), process.next.dl_iterate_phdr)
      .contains(reinterpret_cast<const void*>(process.next.mlockall));
}

}  // namespace

// Another library's mlockall, such as a sanitizer's, which locks nothing, knows itself what to do.
// What the C library's is refused for, it is asked again after slabs and pool have given up what
// they do not use: it counts against RLIMIT_MEMLOCK.
int mlockall(int flags) {
  Process& process = g_process;
  find_next_allocator();
  if (process.next.mlockall == nullptr) {
    errno = ENOSYS;
    return -1;
  }
  const Lanes& lanes = process.engine.lanes;
  if (!lanes.opened() || !is_c_librarys(process)) {
    return process.next.mlockall(flags);
  }
  const auto lock = [&] {
    return os::lock_all(flags, lanes.region.reserved(), process.next.mlockall);
  };
  const int answer = lock();
  return answer != 0 && errno == ENOMEM && process.engine.give_back.relieve(1) ? lock() : answer;
}

}  // namespace memo::shim
