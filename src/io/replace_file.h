// Writing a file so that a reader never sees half of it. Cold; file descriptors only.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <string_view>

#include "src/base/interrupts.h"
#include "src/base/os.h"
#include "src/base/tuning.h"

namespace memo {

// Writes all of it, through interruptions; false with errno, and no signal, if that fails. A pipe
// that nobody empties is given up: a program started without stderr may find another library's
// there.
inline bool write_all(int file, const void* data, std::size_t size) {
  const NoWriteSignals quiet;
  const char* text = static_cast<const char*>(data);
  int rests = 0;  // of a millisecond each, since the last byte
  while (size > 0) {
    const ssize_t written = write(file, text, size);
    if (written < 0 && errno == EINTR) {
      continue;
    }
    pollfd ready{file, POLLOUT, 0};
    if (written < 0 && errno == EAGAIN && rests++ < tuning::kPipePatience &&
        poll(&ready, 1, tuning::kPipePatience) == 1) {
      os::rest();  // not all that is called ready takes a byte
      continue;
    }
    if (written <= 0) {
      return false;
    }
    rests = 0;
    text += written;
    size -= static_cast<std::size_t>(written);
  }
  return true;
}

// True for devices, pipes and what /dev and /proc name: a file must not take their place.
inline bool is_no_file(const char* path) {
  const std::string_view name = path;
  struct stat status{};
  return (name.starts_with("/dev/") && !name.starts_with("/dev/shm/")) ||
         name.starts_with("/proc/") ||
         (lstat(path, &status) == 0 && (S_ISCHR(status.st_mode) || S_ISFIFO(status.st_mode)));
}

// Runs write_to(file) on the device or pipe itself. One that nobody reads is not waited for.
template <typename Write>
bool write_in_place(const char* path, Write&& write_to) {
  const int file = open(path, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  if (file < 0) {
    return false;
  }
  const bool good = write_to(file);
  const int reason = errno;
  const bool closed = close(file) == 0;
  errno = good ? errno : reason;
  return good && closed;
}

// Gives the new `file` what the regular file at `path`, which it is to replace, grants and to whom,
// as far as the system allows. A user who could not read or write the old file cannot the new one:
// rights of a group are not given to another, nor another owner's to everybody.
inline void keep_access(int file, const char* path) {
  struct stat old{};
  struct stat fresh{};
  if (lstat(path, &old) != 0 || !S_ISREG(old.st_mode) || fstat(file, &fresh) != 0) {
    return;
  }
  mode_t mode = old.st_mode & 0777;
  if (old.st_uid != fresh.st_uid && fchown(file, old.st_uid, static_cast<gid_t>(-1)) != 0) {
    mode &= ~static_cast<mode_t>(S_IWOTH);
  }
  if (old.st_gid != fresh.st_gid && fchown(file, static_cast<uid_t>(-1), old.st_gid) != 0) {
    mode &= ~static_cast<mode_t>(S_IRWXG);
  }
  if (fchmod(file, mode) != 0) {
    return;  // a file system without modes
  }
}

// Runs write_to(file) on a new file beside `path`, then renames it to `path`. A symbolic link at
// `path` is replaced, not followed; a device or a pipe is written to. A file that is there keeps
// its mode, group and owner. A new one is readable as the umask says: what is written (sizes,
// hashes, counts, names of functions) is meant to be shared; a user restricts it by the
// umask. False with errno, and nothing left behind, if any of that fails.
template <typename Write>
bool replace_file(const char* path, Write&& write_to) {
  if (is_no_file(path)) {
    return write_in_place(path, write_to);
  }
  // The time is part of the name, since processes in different containers may have one number, and
  // one that was killed while it wrote must not stop those that get its number later.
  char fresh[4096];
  const int length =
      std::snprintf(fresh, sizeof fresh, "%s.%d-%llx.tmp", path, static_cast<int>(getpid()),
                    static_cast<unsigned long long>(os::nanoseconds().count()));
  if (length < 0 || static_cast<std::size_t>(length) >= sizeof fresh) {
    errno = ENAMETOOLONG;
    return false;
  }
  const int file = open(fresh, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (file < 0) {
    return false;
  }
  keep_access(file, path);
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
