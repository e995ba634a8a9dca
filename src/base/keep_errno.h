// free() keeps errno (POSIX.1-2024), and no caller of malloc expects a change where nothing has
// failed. Hot.
#pragma once

#include <cerrno>

namespace memo::os {

// While one lives errno may change; then it is what it was.
class KeepErrno {
 public:
  KeepErrno() : saved_(errno) {}
  ~KeepErrno() { errno = saved_; }
  KeepErrno(const KeepErrno&) = delete;
  KeepErrno& operator=(const KeepErrno&) = delete;

 private:
  int saved_;
};

}  // namespace memo::os
