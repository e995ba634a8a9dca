// What lies behind the addresses that os.cc reserves: memory, or none.
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "src/base/bits.h"
#include "src/base/keep_errno.h"
#include "src/base/os.h"
#include "src/base/tuning.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23  // Linux 5.14; older kernels answer EINVAL
#endif

namespace memo::os {
namespace {

constexpr std::uint64_t kMinPage = 4096;  // of all processors that Linux runs on

// Which pages of [start, start + bytes), page multiples of at most kMaxLooked and a page, have memory: bit 0 of a
// byte for each. False where the system does not tell. A page that was only read counts, which the
// kernel fills with the one page of zeros of all. One place for all who ask, so that they are told the
// same.
[[gnu::noinline]] bool tell_resident(void* start, std::uint64_t bytes, unsigned char* pages) {
  return !confined() && mincore(start, bytes, pages) == 0;
}

bool is_zero(const char* page) {
  return *page == 0 && std::memcmp(page, page + 1, kMinPage - 1) == 0;
}

}  // namespace

bool purge(void* start, std::uint64_t bytes) {
  KeepErrno keep;
  const auto first = reinterpret_cast<std::uint64_t>(start);
  const std::uint64_t last = first + bytes;
  const std::uint64_t from = round_up(first, page_size());
  const std::uint64_t to = round_down(last, page_size());
  if (from >= to) {
    std::memset(start, 0, bytes);
    return true;
  }
  if (madvise(reinterpret_cast<void*>(from), to - from, MADV_DONTNEED) != 0) {
    return false;
  }
  // Where pages are larger than our granules, the pages at both ends belong to others as well.
  std::memset(start, 0, from - first);
  std::memset(reinterpret_cast<void*>(to), 0, last - to);
  return true;
}

bool carry(void* from, void* to, std::uint64_t bytes) {
  auto* const source = static_cast<char*>(from);
  bool taken = true;
  for (std::uint64_t at = 0; at < bytes;) {
    // To the end of a huge page, which goes as a whole.
    const std::uint64_t into = reinterpret_cast<std::uint64_t>(source + at) % kHugePage;
    const std::uint64_t part = std::min(bytes - at, kHugePage - into);
    std::memcpy(static_cast<char*>(to) + at, source + at, part);
    taken = taken && purge(source + at, part);
    at += part;
  }
  return taken;
}

bool advise_huge(void* start, std::uint64_t bytes, bool huge) {
  KeepErrno keep;
  return madvise(start, bytes, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE) == 0;
}

bool populate(void* start, std::uint64_t bytes) {
  KeepErrno keep;
  return madvise(start, bytes, MADV_POPULATE_WRITE) == 0;
}

void place_on_nodes(void* start, std::uint64_t bytes, Numa where) {
  constexpr unsigned long kInterleave = 3;       // MPOL_INTERLEAVE
  constexpr unsigned long kLocal = 4;            // MPOL_LOCAL
  constexpr unsigned long kAllowed = 1UL << 2U;  // MPOL_F_MEMS_ALLOWED
  constexpr std::size_t kWord = 8 * sizeof(unsigned long);
  constexpr std::size_t kMaxNodes = 1024;  // of Linux
  KeepErrno keep;
  if (where == Numa::kOff || confined()) {
    return;
  }
  unsigned long nodes[kMaxNodes / kWord] = {};
  const bool all = where == Numa::kInterleave;
  if (!all || syscall(SYS_get_mempolicy, nullptr, nodes, kMaxNodes, nullptr, kAllowed) == 0) {
    syscall(SYS_mbind, start, bytes, all ? kInterleave : kLocal, all ? nodes : nullptr,
            all ? kMaxNodes : 0, 0U);
  }
}

void clear_written(void* start, std::uint64_t bytes) {
  KeepErrno keep;
  unsigned char there[tuning::kMaxLooked / kMinPage];
  for (std::uint64_t at = 0, part = 0; at < bytes; at += part) {
    part = std::min(bytes - at, tuning::kMaxLooked);
    char* const first = static_cast<char*>(start) + at;
    const bool told = page_size() == kMinPage && tell_resident(first, part, there);
    for (std::uint64_t i = 0; i < part / kMinPage; ++i) {
      char* const page = first + i * kMinPage;
      if ((!told || (there[i] & 1) != 0) && !is_zero(page)) {
        std::memset(page, 0, kMinPage);
      }
    }
  }
}

std::uint64_t written_bytes(const void* start, std::uint64_t bytes) {
  KeepErrno keep;
  const auto first = reinterpret_cast<std::uint64_t>(start);
  const std::uint64_t from = round_down(first, page_size());
  unsigned char there[tuning::kMaxLooked / kMinPage + 1];
  if (!tell_resident(reinterpret_cast<void*>(from), round_up(first + bytes, page_size()) - from,
                     there)) {
    return 0;
  }
  std::uint64_t written = 0;
  for (std::uint64_t at = first; at < first + bytes; at += kMinPage) {
    const bool memory = (there[(at - from) / page_size()] & 1) != 0;
    written += memory && !is_zero(reinterpret_cast<const char*>(at)) ? kMinPage : 0;
  }
  return written;
}

std::uint64_t resident_bytes(const void* start, std::uint64_t bytes) {
  KeepErrno keep;
  const auto first = reinterpret_cast<std::uint64_t>(start);
  const std::uint64_t from = round_up(first, page_size());
  const std::uint64_t to = std::max(from, round_down(first + bytes, page_size()));
  unsigned char pages[tuning::kMaxLooked / kMinPage];
  if (from < to && !tell_resident(reinterpret_cast<void*>(from), to - from, pages)) {
    return 0;
  }
  const std::uint64_t count = (to - from) / page_size();
  const auto without =
      std::count_if(pages, pages + count, [](unsigned char page) { return (page & 1) == 0; });
  return bytes - static_cast<std::uint64_t>(without) * page_size();
}

bool is_bare(const void* start, std::uint64_t bytes) {
  const std::uint64_t step = std::max(bytes / tuning::kBareLooks, tuning::kMaxLooked);
  std::uint64_t looked_at = 0;
  std::uint64_t resident = 0;
  for (std::uint64_t at = 0; at < bytes; at += step) {
    const std::uint64_t part = std::min(bytes - at, tuning::kMaxLooked);
    looked_at += part;
    resident += resident_bytes(static_cast<const char*>(start) + at, part);
  }
  return 2 * resident < looked_at;
}

}  // namespace memo::os
