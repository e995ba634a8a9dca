#include "src/base/descriptors.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <atomic>
#include <cstdint>

#include "src/base/keep_errno.h"
#include "src/base/no_cancellation.h"
#include "src/base/os.h"

// On all processors; headers of older C libraries lack them.
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434  // Linux 5.3
#endif
#ifndef SYS_close_range
#define SYS_close_range 436  // Linux 5.9
#endif
#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438  // Linux 5.6
#endif

namespace memo::os {
namespace {

// What stderr was at load; no file has inode 0, which stands for a closed one.
constinit std::atomic<bool> noted{false};
constinit std::atomic<std::uint64_t> noted_device{0};
constinit std::atomic<std::uint64_t> noted_inode{0};

// True for a file that has taken the place of stderr, and where the system does not tell.
bool is_programs_file(int stream) {
  struct stat now;
  if (fstat(stream, &now) != 0) {
    return true;
  }
  return S_ISREG(now.st_mode) && (now.st_dev != noted_device.load(std::memory_order_relaxed) ||
                                  now.st_ino != noted_inode.load(std::memory_order_relaxed));
}

// The process' standard error in this thread's table; -1 where it has none, or is not to be had. A
// sandbox may refuse the first way, which is the only one to a socket.
int borrow_stderr() {
  const auto process =
      may_end_by_filter() ? -1 : static_cast<int>(syscall(SYS_pidfd_open, getpid(), 0));
  if (process >= 0) {
    const auto stream = static_cast<int>(syscall(SYS_pidfd_getfd, process, STDERR_FILENO, 0));
    close(process);
    if (stream >= 0) {
      return stream;
    }
  }
  // Without waiting for a pipe's reader.
  return open("/proc/self/fd/2", O_WRONLY | O_APPEND | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

// True for a thread that has descriptors of its own.
bool leads_nowhere(int stream) {
  const int flags = fcntl(stream, F_GETFL);
  return flags >= 0 && (flags & O_PATH) != 0;
}

void write_once(int stream, std::string_view text) {
  [[maybe_unused]] const ssize_t written = write(stream, text.data(), text.size());
}

}  // namespace

bool own_descriptors() {
  const KeepErrno keep;
  const NoCancellation whole;
  constexpr unsigned kUnshare = 1U << 1U;  // CLOSE_RANGE_UNSHARE
  const bool own = !may_end_by_filter() && syscall(SYS_close_range, 0U, ~0U, kUnshare) == 0;
  // Nothing can be written by these.
  for (int number = 0; own && number <= STDERR_FILENO; ++number) {
    open("/", O_PATH | O_CLOEXEC);
  }
  return own;
}

void note_stderr() {
  struct stat now;
  if (fstat(STDERR_FILENO, &now) == 0) {
    noted_device.store(now.st_dev, std::memory_order_relaxed);
    noted_inode.store(now.st_ino, std::memory_order_relaxed);
  }
  noted.store(true, std::memory_order_release);
}

void write_to_stderr(std::string_view text, bool last_words) {
  const KeepErrno keep;
  const NoCancellation whole;
  // A filter of system calls may end the process for this call.
  if (!noted.load(std::memory_order_acquire) || confined()) {
    write_once(STDERR_FILENO, text);
  } else {
    const bool borrowed = leads_nowhere(STDERR_FILENO);
    const int stream = borrowed ? borrow_stderr() : STDERR_FILENO;
    if (last_words || !is_programs_file(stream)) {
      write_once(stream, text);
    }
    if (borrowed && stream >= 0) {
      close(stream);
    }
  }
}

}  // namespace memo::os
