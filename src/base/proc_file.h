// Files of /proc, read without memory of their own. Hot, but for rare decisions: each line costs
// tens of nanoseconds. The descriptor is closed again before anything else runs.
#pragma once

#include <fcntl.h>
#include <unistd.h>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "src/base/no_cancellation.h"

namespace memo::os {

// A file of /proc, read by its lines' first kMaxLine bytes in a small buffer: some threads have
// small stacks, and the lines of a status can be long.
template <std::size_t kMaxLine>
class LinesOf {
 public:
  explicit LinesOf(const char* path) : file_(open(path, O_RDONLY | O_CLOEXEC)) {}
  ~LinesOf() {
    if (file_ >= 0) {
      close(file_);
    }
  }
  LinesOf(const LinesOf&) = delete;
  LinesOf& operator=(const LinesOf&) = delete;

  // The next line's first bytes, without its end; false after the last.
  bool next(std::string_view& line) {
    std::size_t size = 0;
    bool any = false;
    for (char byte = 0; get(byte); any = true) {
      if (byte == '\n') {
        line = {line_, size};
        return true;
      }
      if (size < sizeof line_) {
        line_[size++] = byte;
      }
    }
    line = {line_, size};
    return any;
  }

 private:
  bool get(char& byte) {
    if (at_ == end_) {
      const ssize_t count = file_ < 0 ? 0 : read(file_, buffer_, sizeof buffer_);
      at_ = 0;
      end_ = count > 0 ? static_cast<std::size_t>(count) : 0;
    }
    if (at_ == end_) {
      return false;
    }
    byte = buffer_[at_++];
    return true;
  }

  const NoCancellation whole_;
  int file_;
  std::size_t at_ = 0;
  std::size_t end_ = 0;
  char buffer_[256];
  char line_[kMaxLine];
};
using LineReader = LinesOf<32>;

// The number that a line's digits make; 0 where there are none.
inline std::uint64_t number_in(std::string_view text) {
  std::uint64_t number = 0;
  for (const char byte : text) {
    if (byte >= '0' && byte <= '9') {
      number = number * 10 + static_cast<std::uint64_t>(byte - '0');
    }
  }
  return number;
}

}  // namespace memo::os
