// What lies behind the addresses that os.cc reserves: memory, or none.
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstring>

#include "src/base/check.h"
#include "src/base/keep_errno.h"
#include "src/base/os.h"
#include "src/base/pagemap.h"
#include "src/base/resident.h"
#include "src/base/whole_pages.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23  // Linux 5.14; older kernels answer EINVAL
#endif

namespace memo::os {
namespace {

constexpr std::uint64_t kMinPage = 4096;  // of all processors that Linux runs on

bool is_zero(const char* page) {
  return *page == 0 && std::memcmp(page, page + 1, kMinPage - 1) == 0;
}

// False where the system says that it takes memory back and does not, as an emulator of single
// processes: QEMU before 7.1.
bool takes_back() {
  static constinit std::atomic<bool> known{false};
  static constinit std::atomic<bool> takes{true};
  if (!known.load(std::memory_order_acquire)) {
    void* const page =
        mmap(nullptr, page_size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) {
      return true;
    }
    auto& byte = *static_cast<volatile char*>(page);
    byte = 1;
    takes = madvise(page, page_size(), MADV_DONTNEED) != 0 || byte == 0;
    munmap(page, page_size());
    known.store(true, std::memory_order_release);
  }
  return takes.load(std::memory_order_relaxed);
}

}  // namespace

bool purge(void* start, std::uint64_t bytes) {
  KeepErrno keep;
  const WholePages pages(start, bytes);
  if (!pages.any()) {
    std::memset(start, 0, bytes);
    return true;
  }
  if (!takes_back() || madvise(pages.first, pages.bytes(), MADV_DONTNEED) != 0) {
    return false;
  }
  // Where pages are larger than our granules, the pages at both ends belong to others as well.
  char* const begin = static_cast<char*>(start);
  std::memset(begin, 0, static_cast<std::size_t>(pages.first - begin));
  std::memset(pages.end, 0, static_cast<std::size_t>(begin + bytes - pages.end));
  return true;
}

bool renew(void* start, std::uint64_t bytes) {
  KeepErrno keep;
  const WholePages pages(start, bytes);
  constexpr int kAnew = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
  // The pages at both ends have other blocks as well, where pages are larger than our granules.
  const std::uint64_t page = page_size();
  char* const first =
      reinterpret_cast<char*>(round_down(reinterpret_cast<std::uint64_t>(start), page));
  const std::uint64_t all =
      round_up(static_cast<std::uint64_t>(static_cast<char*>(start) + bytes - first), page);
  if (all != pages.bytes() && mprotect(first, all, PROT_READ | PROT_WRITE) != 0) {
    return false;
  }
  if (!pages.any()) {
    return true;
  }
  // Else the limit on locked memory counts the new pages beside the old ones.
  munlock(pages.first, pages.bytes());
  return mmap(pages.first, pages.bytes(), PROT_READ | PROT_WRITE, kAnew, -1, 0) != MAP_FAILED;
}

void free_lazily(void* start, std::uint64_t bytes) {
  KeepErrno keep;
  if (const WholePages pages(start, bytes); pages.any()) {
    madvise(pages.first, pages.bytes(), MADV_FREE);
  }
}

bool tell_resident(const void* start, std::uint64_t count, unsigned char* there) {
  KeepErrno keep;
  if (!may_end_by_filter()) {
    return mincore(const_cast<void*>(start), count * page_size(), there) == 0;
  }
  constexpr std::uint64_t kAtOnce = 64;  // pages
  const Pagemap pagemap(true);
  bool told = true;
  for (std::uint64_t at = 0; told && at < count; at += kAtOnce) {
    std::uint64_t words[kAtOnce];
    const std::uint64_t some = std::min(kAtOnce, count - at);
    told = pagemap.read(static_cast<const char*>(start) + at * page_size(), words, some);
    for (std::uint64_t i = 0; told && i < some; ++i) {
      there[at + i] = (words[i] & Pagemap::kPresent) != 0 ? 1 : 0;
    }
  }
  return told;
}

namespace {

// Which pages hold anything, in memory or swapped out; those that are only mapped count. Unlike
// mincore() it has what was swapped out, so that what it leaves out reads as zeros. Where the
// system does not tell, has larger pages, or the thread is confined, a page holds what is not
// zeros.
class Written {
 public:
  static constexpr std::uint64_t kAtOnce = 64 * kMinPage;  // bytes

  // A bit for each page from `page` on.
  [[nodiscard]] std::uint64_t look(const char* page, std::uint64_t count) const {
    std::uint64_t words[kAtOnce / kMinPage];
    const bool told = pagemap_.read(page, words, count);
    std::uint64_t found = 0;
    for (std::uint64_t i = 0; told && i < count; ++i) {
      const bool holds = (words[i] & (Pagemap::kPresent | Pagemap::kSwapped)) != 0;
      found |= holds ? std::uint64_t{1} << i : 0;
    }
    for (std::uint64_t i = 0; !told && i < count; ++i) {
      found |= is_zero(page + i * kMinPage) ? 0 : std::uint64_t{1} << i;
    }
    return found;
  }

 private:
  Pagemap pagemap_{page_size() == kMinPage && !confined()};
};

// Of whole pages, at most kAtOnce.
void copy_pages(const Written& written, const char* from, char* to, std::uint64_t bytes,
                bool zeros) {
  const std::uint64_t count = bytes / kMinPage;
  const std::uint64_t there = written.look(from, count);
  if (there == UINT64_MAX >> (64 - count)) {
    std::memcpy(to, from, bytes);
    return;
  }
  const bool bare = zeros || purge(to, bytes);
  for (std::uint64_t i = 0; i < count; ++i) {
    if ((there >> i & 1) != 0) {
      std::memcpy(to + i * kMinPage, from + i * kMinPage, kMinPage);
    } else if (!bare) {
      std::memset(to + i * kMinPage, 0, kMinPage);
    }
  }
}

}  // namespace

void copy_written(const void* from, void* to, std::uint64_t bytes, bool zeros) {
  KeepErrno keep;
  const auto* const source = static_cast<const char*>(from);
  auto* const target = static_cast<char*>(to);
  const Written written;
  std::uint64_t at = 0;
  if (reinterpret_cast<std::uint64_t>(from) % kMinPage == 0 &&
      (zeros || reinterpret_cast<std::uint64_t>(to) % kMinPage == 0)) {
    for (; at + kMinPage <= bytes;) {
      const std::uint64_t part = std::min(Written::kAtOnce, (bytes - at) / kMinPage * kMinPage);
      copy_pages(written, source + at, target + at, part, zeros);
      at += part;
    }
  }
  std::memcpy(target + at, source + at, bytes - at);
}

bool carry(void* from, void* to, std::uint64_t bytes) {
  auto* const source = static_cast<char*>(from);
  bool taken = true;
  for (std::uint64_t at = 0; at < bytes;) {
    // To the end of a huge page, which goes as a whole.
    const std::uint64_t into = reinterpret_cast<std::uint64_t>(source + at) % kHugePage;
    const std::uint64_t part = std::min(bytes - at, kHugePage - into);
    copy_written(source + at, static_cast<char*>(to) + at, part);
    taken = taken && purge(source + at, part);
    at += part;
  }
  return taken;
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

void clear_pages(void* start, std::uint64_t bytes) {
  auto* const first = static_cast<char*>(start);
  for (std::uint64_t at = 0; at < bytes; at += kMinPage) {
    if (!is_zero(first + at)) {
      std::memset(first + at, 0, kMinPage);
    }
  }
}

void clear_written(void* start, std::uint64_t bytes) {
  KeepErrno keep;
  MEMO_DCHECK(bytes % kMinPage == 0);
  auto* const first = static_cast<char*>(start);
  const Written written;
  for (std::uint64_t at = 0; at < bytes; at += Written::kAtOnce) {
    const std::uint64_t count = std::min(Written::kAtOnce, bytes - at) / kMinPage;
    std::uint64_t there = written.look(first + at, count);
    for (; there != 0; there &= there - 1) {
      const auto page = static_cast<std::uint64_t>(std::countr_zero(there));
      clear_pages(first + at + page * kMinPage, kMinPage);
    }
  }
}

std::uint64_t resident_bytes(const void* start, std::uint64_t bytes) {
  Residents memory(start, bytes);
  std::uint64_t sum = 0;
  for (Residents::Stretch stretch; memory.next(stretch);) {
    sum += stretch.there ? stretch.bytes : 0;
  }
  return memory.told() ? sum : 0;
}

bool is_written(const void* start, std::uint64_t bytes, std::uint64_t but) {
  constexpr std::size_t kAtOnce = 16;  // pages: a small stack has room for them
  constexpr int kLooks = 4;            // at each
  using Line = std::array<std::uint64_t, 8>;
  KeepErrno keep;
  if (confined()) {
    return false;
  }
  char* const first = const_cast<char*>(static_cast<const char*>(start));
  std::uint64_t zero = 0;
  // From the end: what is not yet written mostly ends so.
  for (std::uint64_t left = bytes; left != 0 && zero <= but;) {
    std::array<iovec, kAtOnce> pages;
    std::size_t count = 0;
    for (; count < kAtOnce && left != 0; left -= kMinPage) {
      pages[count++] = {first + (left - kMinPage), sizeof(Line)};
    }
    for (int look = 0; look < kLooks && count != 0; ++look) {
      std::array<Line, kAtOnce> lines = {};
      iovec here{lines.data(), count * sizeof(Line)};
      if (process_vm_readv(getpid(), &here, 1, pages.data(), count, 0) !=
          static_cast<ssize_t>(here.iov_len)) {
        return false;
      }
      std::size_t zeros = 0;
      for (std::size_t i = 0; i < count; ++i) {
        if (lines[i] == Line{}) {
          pages[zeros++] = {static_cast<char*>(pages[i].iov_base) + kMinPage / kLooks,
                            sizeof(Line)};
        }
      }
      count = zeros;
    }
    zero += count * kMinPage;
  }
  return zero <= but;
}

bool is_bare(const void* start, std::uint64_t bytes) {
  return 2 * resident_bytes(start, bytes) < bytes;
}

}  // namespace memo::os
