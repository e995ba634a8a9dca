// What several processes do with one file: telling whether another has written it. Cold; no file is
// opened.
#pragma once

#include <sys/stat.h>
#include <cstdint>
#include <ctime>

#include "src/base/os.h"

namespace memo {

// The clock by which files are dated: since 1970.
inline Nanos file_time() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME_COARSE, &now);
  return os::nanoseconds_of(now);
}

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

}  // namespace memo
