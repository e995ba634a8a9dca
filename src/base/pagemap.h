// What the kernel tells of the process' pages, a word for each (/proc/self/pagemap). Hot; opens a
// file. Source: the kernel's admin-guide/mm/pagemap.rst.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cstdint>

#include "src/base/no_cancellation.h"
#include "src/base/os.h"

namespace memo::os {

class Pagemap {
 public:
  static constexpr std::uint64_t kPresent = 1ULL << 63U;
  static constexpr std::uint64_t kSwapped = 1ULL << 62U;
  static constexpr std::uint64_t kOfFile = 1ULL << 61U;     // or shared anonymous memory
  static constexpr std::uint64_t kExclusive = 1ULL << 56U;  // mapped once

  // `asked`: else it is not opened, and tells nothing.
  explicit Pagemap(bool asked)
      : file_(asked ? open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC) : -1) {}
  ~Pagemap() {
    if (file_ >= 0) {
      close(file_);
    }
  }
  Pagemap(const Pagemap&) = delete;
  Pagemap& operator=(const Pagemap&) = delete;

  // The words of `count` pages from the one at `start` on; false where the system does not tell.
  [[nodiscard]] bool read(const void* start, std::uint64_t* words, std::uint64_t count) const {
    const std::uint64_t bytes = count * sizeof *words;
    const std::uint64_t at = reinterpret_cast<std::uint64_t>(start) / page_size() * sizeof *words;
    return file_ >= 0 &&
           pread(file_, words, bytes, static_cast<off_t>(at)) == static_cast<ssize_t>(bytes);
  }

 private:
  const NoCancellation whole_;
  int file_;
};

}  // namespace memo::os
