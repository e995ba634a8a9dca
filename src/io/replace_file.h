// Writing a file so that a reader never sees half of it. Cold; file descriptors only.
#pragma once

#include <fcntl.h>
#include <unistd.h>
#include <cerrno>
#include <cstddef>
#include <cstdio>

namespace memo {

// Writes all of it, through interruptions; false with errno if that fails.
inline bool write_all(int file, const void* data, std::size_t size) {
  const char* text = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t written = write(file, text, size);
    if (written < 0 && errno == EINTR) {
      continue;
    }
    if (written <= 0) {
      return false;
    }
    text += written;
    size -= static_cast<std::size_t>(written);
  }
  return true;
}

// Runs write_to(file) on a new file beside `path`, then renames it to `path`. A symbolic link at
// `path` is replaced, not followed. False with errno, and nothing left behind, if any of that
// fails.
template <typename Write>
bool replace_file(const char* path, Write&& write_to) {
  char fresh[4096];
  const int length =
      std::snprintf(fresh, sizeof fresh, "%s.%d.tmp", path, static_cast<int>(getpid()));
  if (length < 0 || static_cast<std::size_t>(length) >= sizeof fresh) {
    errno = ENAMETOOLONG;
    return false;
  }
  const int file = open(fresh, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (file < 0) {
    return false;
  }
  const bool good = write_to(file);
  const int reason = errno;
  if (close(file) == 0 && good && rename(fresh, path) == 0) {
    return true;
  }
  const int failed = good ? errno : reason;
  unlink(fresh);
  errno = failed;
  return false;
}

}  // namespace memo
