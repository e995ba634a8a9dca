// Which memory is the process' alone, as the kernel tells page by page (/proc/self/pagemap). Cold: a question takes some
// 10 us.
#pragma once

#include <fcntl.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>

#include "src/base/no_cancellation.h"
#include "src/base/os.h"

namespace memo::os {

// The file is open for as long as this lives. Pages of 4 KiB: where they are larger nothing is known.
class OwnPages {
 public:
  explicit OwnPages(const char* path = "/proc/self/pagemap")
      : file_(page_size() == kPage ? open(path, O_RDONLY | O_CLOEXEC) : -1) {}
  ~OwnPages() {
    if (file_ >= 0) {
      close(file_);
    }
  }
  OwnPages(const OwnPages&) = delete;
  OwnPages& operator=(const OwnPages&) = delete;

  // True if each page of [start, start + kHugePage) has memory that no other process has as well: not shared with a
  // forked child or by same-page merging, not in swap, and not the one page of zeros that the kernel lends to whoever only
  // reads.
  [[nodiscard]] bool all(const void* start) const {
    const auto first =
        static_cast<off_t>(reinterpret_cast<std::uint64_t>(start) / kPage * sizeof(std::uint64_t));
    std::array<std::uint64_t, kHugePage / kPage> pages{};
    return file_ >= 0 && pread(file_, pages.data(), sizeof pages, first) == sizeof pages &&
           std::all_of(pages.begin(), pages.end(),
                       [](std::uint64_t page) { return (page & kLooked) == kOwn; });
  }

 private:
  static constexpr std::uint64_t kPage = 4096;
  // Documentation/admin-guide/mm/pagemap.rst.
  static constexpr std::uint64_t kPresent = 1ULL << 63U;
  static constexpr std::uint64_t kOfFile = 1ULL << 61U;     // or shared anonymous memory
  static constexpr std::uint64_t kExclusive = 1ULL << 56U;  // mapped once
  static constexpr std::uint64_t kOwn = kPresent | kExclusive;
  static constexpr std::uint64_t kLooked = kOwn | kOfFile;

  const NoCancellation whole_;
  int file_;
};

}  // namespace memo::os
