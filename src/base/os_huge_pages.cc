// Huge pages of 2 MiB, asked for in advance or of memory that is there.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#include <algorithm>
#include <iterator>
#include <string_view>

#include "src/base/keep_errno.h"
#include "src/base/no_cancellation.h"
#include "src/base/os.h"
#include "src/base/proc_file.h"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25  // Linux 6.1; older kernels answer EINVAL
#endif

namespace memo::os {

bool advise_huge(void* start, std::uint64_t bytes, bool huge) {
  KeepErrno keep;
  return madvise(start, bytes, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE) == 0;
}

namespace {

constexpr std::uint64_t kPage = 4096;  // others are not looked at

// Each page of the 2 MiB at `start` is as asked. Source: the kernel's admin-guide/mm/pagemap.rst.
template <typename Fits>
bool all_pages(const void* start, Fits&& fits) {
  constexpr std::uint64_t kAtOnce = 32;  // pages: a large call has little stack
  KeepErrno keep;
  const NoCancellation whole;
  const int file =
      page_size() == kPage && !confined() ? open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC) : -1;
  const std::uint64_t first = reinterpret_cast<std::uint64_t>(start) / kPage;
  std::uint64_t pages[kAtOnce];
  bool all = file >= 0;
  for (std::uint64_t i = 0; all && i < kHugePage / kPage; i += kAtOnce) {
    all = pread(file, pages, sizeof pages, static_cast<off_t>((first + i) * sizeof pages[0])) ==
              sizeof pages &&
          std::all_of(std::begin(pages), std::end(pages), fits);
  }
  if (file >= 0) {
    close(file);
  }
  return all;
}

constexpr std::uint64_t kPresent = 1ULL << 63U;
constexpr std::uint64_t kOfFile = 1ULL << 61U;     // or shared anonymous memory
constexpr std::uint64_t kExclusive = 1ULL << 56U;  // mapped once

}  // namespace

bool is_own(const void* start) {
  return all_pages(start, [](std::uint64_t page) {
    return (page & (kPresent | kOfFile | kExclusive)) == (kPresent | kExclusive);
  });
}

bool none_is_lent(const void* start) {
  return all_pages(
      start, [](std::uint64_t page) { return (page & kPresent) == 0 || (page & kExclusive) != 0; });
}

// The last page: the huge page around it is needed last.
void keep_whole(void* start, std::uint64_t bytes) {
  char* const first = static_cast<char*>(start);
  char* const page = first + bytes - page_size();
  *static_cast<volatile char*>(page) = 0;
  const std::uint64_t around = reinterpret_cast<std::uint64_t>(page) % kHugePage + page_size();
  purge(first + sub_sat(bytes, around), std::min(bytes, around));
}

void collapse(void* start, std::uint64_t bytes) {
  KeepErrno keep;
  madvise(start, bytes, MADV_COLLAPSE);
}

// No byte is asked for: that tells whether the advice is known.
bool can_collapse() {
  KeepErrno keep;
  std::string_view choice;
  if (page_size() != kPage || confined() || madvise(nullptr, 0, MADV_COLLAPSE) != 0) {
    return false;
  }
  LineReader file("/sys/kernel/mm/transparent_hugepage/enabled");
  return file.next(choice) && choice.find("[never]") == std::string_view::npos;
}

}  // namespace memo::os
