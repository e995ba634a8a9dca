#include "src/base/file_map.h"

#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "src/base/keep_errno.h"

namespace memo::os {

void* map_file(int file, std::uint64_t bytes) {
  const os::KeepErrno keep_errno;
  void* got = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (got == MAP_FAILED) {
    got = nullptr;
  } else if (madvise(got, bytes, MADV_DONTFORK) != 0) {
    munmap(got, bytes);
    got = nullptr;
  }
  return got;
}

// The kernel copies, and reports what it could not reach. Reading one's own memory is no tracing,
// which Yama and missing rights would forbid.
bool copy_mapped(void* to, const void* from, std::uint64_t bytes) {
  const os::KeepErrno keep_errno;
  const iovec target{to, bytes};
  const iovec source{const_cast<void*>(from), bytes};
  return process_vm_readv(getpid(), &target, 1, &source, 1, 0) == static_cast<ssize_t>(bytes);
}

}  // namespace memo::os
