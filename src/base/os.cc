#include "src/base/os.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>

#include "src/base/bits.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23  // Linux 5.14; older kernels answer EINVAL
#endif

namespace memo::os {
namespace {

constexpr std::uint64_t kLeastPage = 4096;  // of all processors that Linux runs on

class KeepErrno {
 public:
  KeepErrno() : saved_(errno) {}
  ~KeepErrno() { errno = saved_; }
  KeepErrno(const KeepErrno&) = delete;
  KeepErrno& operator=(const KeepErrno&) = delete;

 private:
  int saved_;
};

std::uint64_t read_clock(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000U +
         static_cast<std::uint64_t>(now.tv_nsec);
}

}  // namespace

std::uint64_t page_size() {
  static constinit std::uint64_t size = 0;
  if (size == 0) {
    size = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  }
  return size;
}

std::uint64_t physical_memory() {
  KeepErrno keep;
  struct sysinfo info{};
  if (sysinfo(&info) != 0) {
    return 1ULL << 30;
  }
  return static_cast<std::uint64_t>(info.totalram) * info.mem_unit;
}

std::uint64_t nanoseconds() {
  return read_clock(CLOCK_MONOTONIC);
}
std::uint64_t coarse_nanoseconds() {
  return read_clock(CLOCK_MONOTONIC_COARSE);
}

void* reserve(std::uint64_t bytes, std::uint64_t alignment) {
  KeepErrno keep;
  const std::uint64_t all = bytes + alignment;
  void* got = mmap(nullptr, all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (got == MAP_FAILED) {
    return nullptr;
  }
  const auto start = reinterpret_cast<std::uint64_t>(got);
  const std::uint64_t aligned = round_up(start, alignment);
  if (aligned > start) {
    munmap(got, aligned - start);
  }
  if (aligned + bytes < start + all) {
    munmap(reinterpret_cast<void*>(aligned + bytes), start + all - aligned - bytes);
  }
  return reinterpret_cast<void*>(aligned);
}

bool commit(void* start, std::uint64_t bytes) {
  KeepErrno keep;
  return mprotect(start, bytes, PROT_READ | PROT_WRITE) == 0;
}

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

bool advise_huge(void* start, std::uint64_t bytes, bool huge) {
  KeepErrno keep;
  return madvise(start, bytes, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE) == 0;
}

bool populate(void* start, std::uint64_t bytes) {
  KeepErrno keep;
  return madvise(start, bytes, MADV_POPULATE_WRITE) == 0;
}

std::uint64_t resident_bytes(const void* start, std::uint64_t bytes) {
  KeepErrno keep;
  const auto first = reinterpret_cast<std::uint64_t>(start);
  const std::uint64_t from = round_up(first, page_size());
  const std::uint64_t to = round_down(first + bytes, page_size());
  unsigned char pages[kMostLooked / kLeastPage];
  if (from >= to || mincore(reinterpret_cast<void*>(from), to - from, pages) != 0) {
    return bytes;
  }
  const std::uint64_t count = (to - from) / page_size();
  const auto without =
      std::count_if(pages, pages + count, [](unsigned char page) { return (page & 1) == 0; });
  return bytes - static_cast<std::uint64_t>(without) * page_size();
}

void* map(std::uint64_t bytes) {
  KeepErrno keep;
  void* got = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return got == MAP_FAILED ? nullptr : got;
}

void unmap(void* start, std::uint64_t bytes) {
  KeepErrno keep;
  munmap(start, bytes);
}

NoCancellation::NoCancellation() {
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_);
}
NoCancellation::~NoCancellation() {
  pthread_setcancelstate(before_, nullptr);
}

void yield_to_others() {
  KeepErrno keep;
  const sched_param parameter{};
  sched_setscheduler(0, SCHED_IDLE, &parameter);
}

// By the system call: the C library's is a place where a thread may be cancelled.
void rest() {
  KeepErrno keep;
  const timespec millisecond{0, 1'000'000};
  syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &millisecond, nullptr);
}

std::uint64_t address_space_left() {
  KeepErrno keep;
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
    return UINT64_MAX;
  }
  char text[64];
  const NoCancellation whole;
  const int file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  if (file < 0) {
    return 0;
  }
  const ssize_t count = read(file, text, sizeof text - 1);
  close(file);
  std::uint64_t pages = 0;
  for (ssize_t i = 0; i < count && text[i] >= '0' && text[i] <= '9'; ++i) {
    pages = pages * 10 + static_cast<std::uint64_t>(text[i] - '0');
  }
  const std::uint64_t used = pages * page_size();
  return used < limit.rlim_cur ? limit.rlim_cur - used : 0;
}

}  // namespace memo::os
