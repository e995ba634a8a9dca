// Which memory is the process' alone, as the kernel tells page by page (/proc/self/pagemap). Cold: a question takes some
// 15 us.
#pragma once

#include <fcntl.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <cstdint>

#include "src/base/no_cancellation.h"
#include "src/base/os.h"

namespace memo::os {

// True if each page of 4 KiB of [start, start + kHugePage) has memory that no other process has as well: not shared with a
// forked child or by same-page merging, not in swap, and not the one page of zeros that the kernel lends to whoever only
// reads. False where the system does not tell. The descriptor is closed again before anything else runs.
// Source: the kernel's admin-guide/mm/pagemap.rst.
inline bool is_own(const void* start, const char* path = "/proc/self/pagemap") {
  constexpr std::uint64_t kPage = 4096;
  constexpr std::uint64_t kPresent = 1ULL << 63U;
  constexpr std::uint64_t kOfFile = 1ULL << 61U;     // or shared anonymous memory
  constexpr std::uint64_t kExclusive = 1ULL << 56U;  // mapped once
  std::array<std::uint64_t, kHugePage / kPage> pages{};
  const auto first =
      static_cast<off_t>(reinterpret_cast<std::uint64_t>(start) / kPage * sizeof(std::uint64_t));
  const NoCancellation whole;
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  const bool told = file >= 0 && pread(file, pages.data(), sizeof pages, first) == sizeof pages;
  if (file >= 0) {
    close(file);
  }
  return told && std::all_of(pages.begin(), pages.end(), [](std::uint64_t page) {
           return (page & (kPresent | kOfFile | kExclusive)) == (kPresent | kExclusive);
         });
}

}  // namespace memo::os
