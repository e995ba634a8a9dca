// What several processes do with one file: telling whether another has written it, and taking turns
// at reading and replacing it. Cold; file descriptors only.
#pragma once

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cerrno>
#include <cstdint>
#include <string_view>

#include "src/base/os.h"

namespace memo {

// Which file lies at a path, and when it was written; equal marks: nobody has changed it. No file
// has the mark of all zeros.
struct FileMark {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::uint64_t bytes = 0;
  Nanos written;
  bool operator==(const FileMark&) const = default;
  static FileMark of(const char* path) {
    struct stat status{};
    if (stat(path, &status) != 0) {
      return {};
    }
    return {status.st_dev, status.st_ino, static_cast<std::uint64_t>(status.st_size),
            os::nanoseconds_of(status.st_mtim)};
  }
};

// While one lives, no other process that asks has the folder of `path`. The lock is the folder's
// (flock), since the file itself is replaced, and goes with the process. Best effort: a process
// that cannot have it within 2 s, or at all (a folder that may not be read, a file system without
// locks), goes without, and may undo what another does at the same moment.
class FolderLock {
 public:
  explicit FolderLock(const char* path) {
    char folder[4096] = ".";
    const std::string_view name = path;
    const std::size_t end = name.rfind('/');
    if (end < sizeof folder - 1) {  // not of a bare name, whose npos is larger
      folder[name.copy(folder, end == 0 ? 1 : end)] = '\0';
    }
    folder_ = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int i = 0; folder_ >= 0 && flock(folder_, LOCK_EX | LOCK_NB) != 0; ++i) {
      if (errno != EWOULDBLOCK || i == kTries || !os::rest(kPause)) {
        break;
      }
    }
  }
  ~FolderLock() {
    const int saved = errno;
    if (folder_ >= 0) {
      flock(folder_, LOCK_UN);  // a child that was forked meanwhile has the folder open as well
      close(folder_);
    }
    errno = saved;
  }
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  static constexpr int kTries = 1000;
  static constexpr Nanos kPause = 2 * os::kMillisecond;
  int folder_ = -1;
};

}  // namespace memo
