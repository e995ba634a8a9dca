#include "src/base/os.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <unistd.h>
#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "src/base/bits.h"
#include "src/base/guard.h"
#include "src/base/keep_errno.h"
#include "src/base/proc_file.h"
#include "src/base/tuning.h"

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif
#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18  // Linux 4.14, as the next
#define MADV_KEEPONFORK 19
#endif

namespace memo::os {
namespace {

Nanos read_clock(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return nanoseconds_of(now);
}

// The filters of the calling thread as one number, never 0; kUnknown where the system does not
// tell, and kMissing where the file is not there, or no descriptor is left for it. Kernels before
// 5.10 tell only whether there is a filter.
constexpr std::uint64_t kUnknown = 1;
constexpr std::uint64_t kNone = 2;
constexpr std::uint64_t kMissing = UINT64_MAX;
std::uint64_t filters() {
  std::uint64_t found = kUnknown;
  errno = 0;
  LineReader status("/proc/thread-self/status");
  for (std::string_view line; status.next(line);) {
    if (line.starts_with("Seccomp:")) {
      found = kNone + number_in(line);
    } else if (line.starts_with("Seccomp_filters:")) {
      return found + (number_in(line) << 8);
    }
  }
  const bool missing = errno == ENOENT || errno == EMFILE || errno == ENFILE;
  return missing ? kMissing : errno != 0 ? kUnknown : found;
}

// As the process starts the thread may be asked itself: later a filter could end it for that.
std::uint64_t first_filters() {
  const std::uint64_t found = filters();
  const int asked = found == kMissing ? prctl(PR_GET_SECCOMP) : -1;
  return found != kMissing ? found : asked >= 0 ? kNone + static_cast<unsigned>(asked) : kUnknown;
}

constinit std::atomic<std::uint64_t> filters_at_start{0};   // 0: start() has not been called
constinit std::atomic<Nanos> filter_expected_at{Nanos{0}};  // the last time; 0: never
constinit std::atomic<std::uint64_t> memory_at_start{0};
constinit std::atomic<std::uint32_t> processors_at_start{0};
constinit std::atomic<bool> limited_at_start{false};

// True if the page is locked, whose contents do not matter: those the system does not take back.
// Another errno is a refusal that says nothing about locks (madvise(2), EINVAL).
bool locked(void* page) {
  return madvise(page, page_size(), MADV_DONTNEED) != 0 && errno == EINVAL;
}

// Addresses without access, not locked even where the program locks all it will have; MAP_FAILED
// where the system refuses. There all would count against the limit, and before 5.18 Linux takes
// locked addresses back page by page, minutes for terabytes: one page is unlocked, and grows
// (mremap() keeps what a mapping is).
void* map_without_access(std::uint64_t bytes) {
  const auto map = [](std::uint64_t size) {
    return mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  };
  void* first = map(page_size());
  if (first != MAP_FAILED && locked(first)) {
    munlock(first, page_size());
    void* grown = mremap(first, page_size(), bytes, MREMAP_MAYMOVE);
    if (grown == MAP_FAILED) {
      munmap(first, page_size());
    }
    return grown;
  }
  if (first != MAP_FAILED) {
    munmap(first, page_size());
  }
  return map(bytes);
}

// Whether a debugger's core file holds these pages: gdb's gcore writes every reserved page that is
// not left out, while the kernel leaves out untouched ones. A refusal is harmless.
void leave_out_of_cores(void* start, std::uint64_t bytes, bool leave_out) {
  madvise(start, bytes, leave_out ? MADV_DONTDUMP : MADV_DODUMP);
}

// RLIMIT_AS in bytes; UINT64_MAX without a limit.
std::uint64_t address_limit() {
  rlimit limit{};
  return getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ? UINT64_MAX
                                                                              : limit.rlim_cur;
}

bool expects_filter(Nanos now) {
  const Nanos at = filter_expected_at.load(std::memory_order_relaxed);
  return at != Nanos{0} && now < at + tuning::kFilterTime;
}

enum class Added : std::uint8_t { kNo, kPerhaps, kYes };
Added filters_added(bool expected) {
  std::uint64_t before = filters_at_start.load(std::memory_order_relaxed);
  if (before == 0 && filters_at_start.compare_exchange_strong(before, first_filters())) {
    return Added::kNo;
  }
  const std::uint64_t now = filters();
  if (now == before || (now == kMissing && !expected)) {
    return Added::kNo;
  }
  return now == kMissing || now == kUnknown ? Added::kPerhaps : Added::kYes;
}

// What the file counts in pages: 0, what is mapped; 1, what of it is in memory. 0 bytes where it
// does not tell.
std::uint64_t bytes_in_statm(int field) {
  std::string_view sizes;
  LinesOf<96> statm("/proc/self/statm");
  statm.next(sizes);
  for (; field > 0; --field) {
    sizes.remove_prefix(sizes.find(' ') + 1);
  }
  return number_in(sizes.substr(0, sizes.find(' '))) * page_size();
}

// Of a thread that is not confined.
bool commits_strictly() {
  std::string_view policy;
  LineReader file("/proc/sys/vm/overcommit_memory");
  return file.next(policy) && policy == "2";
}

}  // namespace

void start() {
  KeepErrno keep;
  filters_at_start = first_filters();
  t_state.asked_at = 0;
  memory_at_start = physical_memory();
  processors_at_start = processors();
  limited_at_start = address_limit() != UINT64_MAX;
}

void expect_filter(Nanos now) {
  filter_expected_at.store(now, std::memory_order_relaxed);
}

bool confined() {
  KeepErrno keep;
  ThreadState& thread = t_state;
  if (thread.asked_at == ThreadState::kFiltered) {
    return true;
  }
  const Nanos now = coarse_nanoseconds();
  const bool expected = expects_filter(now);
  // In milliseconds, modulo 2^32; odd.
  const auto time = static_cast<std::uint32_t>(now / kMillisecond) | 1U;
  const bool trusted =
      thread.asked_at != 0 && time - thread.asked_at < tuning::kIdle / kMillisecond;
  if (trusted && !expected) {
    return false;
  }
  const Added added = filters_added(expected);
  thread.asked_at = added == Added::kNo ? time : added == Added::kYes ? ThreadState::kFiltered : 0;
  return added != Added::kNo;
}

// Containers' filters answer an error where one is not allowed, and allow no namespaces; unshare()
// of nothing tells. Systemd's list allows that.
bool may_end_by_filter() {
  enum class Answer : std::uint8_t { kNotAsked, kError, kAllowed };
  static constinit std::atomic<Answer> known{Answer::kNotAsked};
  if (filters_at_start.load(std::memory_order_relaxed) <= kNone) {
    return false;
  }
  Answer answer = known.load(std::memory_order_relaxed);
  if (answer == Answer::kNotAsked) {
    KeepErrno keep;
    answer = syscall(SYS_unshare, 0) != 0 ? Answer::kError : Answer::kAllowed;
    known.store(answer, std::memory_order_relaxed);
  }
  return answer == Answer::kAllowed;
}

std::uint64_t page_size() {
  static constinit std::uint64_t size = 0;
  if (size == 0) {
    size = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  }
  return size;
}

std::uint64_t physical_memory() {
  KeepErrno keep;
  std::uint64_t bytes = memory_at_start.load(std::memory_order_relaxed);
  if (bytes == 0) {
    struct sysinfo info{};
    bytes = sysinfo(&info) == 0 ? static_cast<std::uint64_t>(info.totalram) * info.mem_unit
                                : std::uint64_t{1} << 30;
    memory_at_start.store(bytes, std::memory_order_relaxed);
  }
  return bytes;
}

std::uint32_t processors() {
  constexpr std::size_t kMost = 8192;  // Linux has no more
  KeepErrno keep;
  std::uint32_t count = processors_at_start.load(std::memory_order_relaxed);
  if (count == 0) {
    std::uint64_t mask[kMost / 64];
    const long bytes = syscall(SYS_sched_getaffinity, 0, sizeof mask, mask);
    for (long i = 0; i < bytes / static_cast<long>(sizeof mask[0]); ++i) {
      count += static_cast<std::uint32_t>(std::popcount(mask[i]));
    }
    count = count != 0 ? count : tuning::kMaxSlabs;
    processors_at_start.store(count, std::memory_order_relaxed);
  }
  return count;
}

bool several_nodes() {
  enum : std::uint8_t { kUnasked, kOne, kSeveral };
  static constinit std::atomic<std::uint8_t> nodes{kUnasked};
  if (nodes.load(std::memory_order_relaxed) == kUnasked && !confined()) {
    KeepErrno keep;
    nodes.store(kOne, std::memory_order_relaxed);
    LineReader status("/proc/thread-self/status");
    for (std::string_view line; status.next(line);) {
      if (line.starts_with("Mems_allowed_list:") && line.find_first_of(",-") != line.npos) {
        nodes.store(kSeveral, std::memory_order_relaxed);
      }
    }
  }
  return nodes.load(std::memory_order_relaxed) == kSeveral;
}

Nanos nanoseconds() {
  return read_clock(CLOCK_MONOTONIC);
}
Nanos coarse_nanoseconds() {
  return read_clock(CLOCK_MONOTONIC_COARSE);
}
Nanos processor_nanoseconds() {
  return confined() ? Nanos{0} : read_clock(CLOCK_PROCESS_CPUTIME_ID);
}

void* reserve(std::uint64_t bytes, std::uint64_t alignment, std::uint64_t apart) {
  KeepErrno keep;
  const std::uint64_t page = page_size();
  const std::uint64_t all = bytes + alignment + 2 * page + 2 * apart;
  if (all < bytes) {
    return nullptr;
  }
  void* got = map_without_access(all);
  if (got == MAP_FAILED) {
    return apart == 0 ? nullptr : reserve(bytes, alignment, 0);
  }
  const auto start = reinterpret_cast<std::uint64_t>(got);
  const std::uint64_t aligned = round_up(start + apart + page, alignment);
  if (aligned - page > start) {
    munmap(got, aligned - page - start);
  }
  const std::uint64_t end = round_up(aligned + bytes, page) + page;
  if (end < start + all) {
    munmap(reinterpret_cast<void*>(end), start + all - end);
  }
  leave_out_of_cores(reinterpret_cast<void*>(aligned - page), end - aligned + page, true);
  return reinterpret_cast<void*>(aligned);
}

bool commit(void* start, std::uint64_t bytes, Lock lock) {
  KeepErrno keep;
  if (mprotect(start, bytes, PROT_READ | PROT_WRITE) != 0) {
    return false;
  }
  leave_out_of_cores(start, bytes, false);
  if (lock == Lock::kOnFault) {
    return mlock2(start, bytes, MLOCK_ONFAULT) == 0;
  }
  return lock == Lock::kNo || mlock(start, bytes) == 0;
}

bool decommit(void* start, std::uint64_t bytes) {
  KeepErrno keep;
  constexpr int kReserved = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
  if (mmap(start, bytes, PROT_NONE, kReserved, -1, 0) == MAP_FAILED) {
    return false;
  }
  leave_out_of_cores(start, bytes, true);
  if (locked(start)) {
    munlock(start, bytes);
  }
  return true;
}

bool close_hole(void* start, std::uint64_t bytes) {
  KeepErrno keep;
  constexpr int kWhereNobodyIs = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE;
  void* const got = mmap(start, bytes, PROT_NONE, kWhereNobodyIs, -1, 0);
  if (got != MAP_FAILED && got != start) {
    munmap(got, bytes);  // an older kernel, which took it for a hint
  }
  if (got != start) {
    return false;
  }
  leave_out_of_cores(start, bytes, true);
  return true;
}

Locking locking(const void* reserved) {
  KeepErrno keep;
  Locking found{.reserved = locked(const_cast<void*>(reserved))};
  void* fresh =
      mmap(nullptr, page_size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (fresh == MAP_FAILED) {
    // Refused as what would have to be locked is past the limit (mmap(2), EAGAIN).
    found.future = errno == EAGAIN ? Lock::kAtOnce : Lock::kNo;
  } else if (locked(fresh)) {
    // MCL_ONFAULT leaves a new page without memory.
    unsigned char there = 1;
    const bool told = !confined() && tell_resident(fresh, 1, &there);
    found.future = told && (there & 1) == 0 ? Lock::kOnFault : Lock::kAtOnce;
  }
  if (fresh != MAP_FAILED) {
    munmap(fresh, page_size());
  }
  return found;
}

void unlock(void* start, std::uint64_t bytes) {
  KeepErrno keep;
  // Linux counts the pages of one call in an int (mm/mlock.c, mlock_fixup(), 6.18): after one of
  // 16 TiB all of them still count as locked.
  constexpr std::uint64_t kAtOnce = 1ULL << 40;
  for (std::uint64_t done = 0; done < bytes; done += kAtOnce) {
    munlock(static_cast<char*>(start) + done, std::min(kAtOnce, bytes - done));
  }
}

void* map(std::uint64_t bytes) {
  const std::uint64_t whole = round_up(bytes, page_size());
  void* got = reserve(whole, page_size());
  if (got != nullptr && !commit(got, whole)) {
    unmap(got, whole);
    return nullptr;
  }
  if (got != nullptr) {
    name_mapping(got, whole, "memomalloc tables");
  }
  return got;
}

void name_mapping(const void* start, std::uint64_t bytes, const char* name) {
  KeepErrno keep;
  constexpr int kSetName = 0x53564d41;   // PR_SET_VMA
  constexpr unsigned long kOfPages = 0;  // PR_SET_VMA_ANON_NAME
  if (!confined()) {
    prctl(kSetName, kOfPages, reinterpret_cast<unsigned long>(start), bytes,
          reinterpret_cast<unsigned long>(name));
  }
}

bool wipe_on_fork(void* start, std::uint64_t bytes) {
  KeepErrno keep;
  return madvise(start, bytes, MADV_WIPEONFORK) == 0;
}

bool copy_on_fork(void* start, std::uint64_t bytes) {
  KeepErrno keep;
  return madvise(start, bytes, MADV_KEEPONFORK) == 0;
}

void unmap(void* start, std::uint64_t bytes) {
  KeepErrno keep;
  const std::uint64_t page = page_size();
  munmap(static_cast<char*>(start) - page, round_up(bytes, page) + 2 * page);
}

void yield_to_others() {
  KeepErrno keep;
  if (confined()) {
    return;
  }
  const sched_param parameter{};
  sched_setscheduler(0, SCHED_BATCH, &parameter);
  setpriority(PRIO_PROCESS, 0, 19);  // of the calling thread alone, on Linux
}

// By the system call that malloc's locks use as well: a filter may leave no other, and the C
// library's sleep is a place where a thread may be cancelled.
bool rest(Nanos time) {
  KeepErrno keep;
  const timespec limit{static_cast<std::time_t>(time / kSecond),
                       static_cast<long>((time % kSecond).count())};
  const std::uint32_t nobody_wakes = 0;
  return syscall(SYS_futex, &nobody_wakes, FUTEX_WAIT_PRIVATE, nobody_wakes, &limit, nullptr, 0) ==
             0 ||
         errno == ETIMEDOUT || errno == EINTR || errno == EAGAIN;
}

bool counts_commitments() {
  KeepErrno keep;
  return !confined() && commits_strictly();
}

bool data_limited() {
  KeepErrno keep;
  if (confined()) {
    return false;
  }
  rlimit limit{};
  return (getrlimit(RLIMIT_DATA, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) ||
         commits_strictly();
}

std::uint64_t address_space_left() {
  KeepErrno keep;
  if (confined()) {
    return limited_at_start.load(std::memory_order_relaxed) ? 0 : UINT64_MAX;
  }
  const std::uint64_t limit = address_limit();
  if (limit == UINT64_MAX) {
    return limit;
  }
  const std::uint64_t used = bytes_in_statm(0);
  return used != 0 && used < limit ? limit - used : 0;
}

std::uint64_t process_bytes() {
  KeepErrno keep;
  return confined() ? 0 : bytes_in_statm(1);
}

}  // namespace memo::os
