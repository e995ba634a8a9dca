// Huge pages of 2 MiB, asked for in advance or of memory that is there.
#include <sys/mman.h>
#include <algorithm>
#include <iterator>
#include <string_view>

#include "src/base/keep_errno.h"
#include "src/base/os.h"
#include "src/base/pagemap.h"
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

// Each page of the 2 MiB at `start` is as asked.
template <typename Fits>
bool all_pages(const void* start, Fits&& fits) {
  constexpr std::uint64_t kAtOnce = 32;  // pages: a large call has little stack
  KeepErrno keep;
  const Pagemap pagemap(page_size() == kPage && !confined());
  std::uint64_t pages[kAtOnce];
  bool all = true;
  for (std::uint64_t i = 0; all && i < kHugePage / kPage; i += kAtOnce) {
    all = pagemap.read(static_cast<const char*>(start) + i * kPage, pages, kAtOnce) &&
          std::all_of(std::begin(pages), std::end(pages), fits);
  }
  return all;
}

}  // namespace

bool is_own(const void* start) {
  return all_pages(start, [](std::uint64_t page) {
    return (page & (Pagemap::kPresent | Pagemap::kOfFile | Pagemap::kExclusive)) ==
           (Pagemap::kPresent | Pagemap::kExclusive);
  });
}

bool none_is_lent(const void* start) {
  return all_pages(start, [](std::uint64_t page) {
    return (page & Pagemap::kPresent) == 0 || (page & Pagemap::kExclusive) != 0;
  });
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
