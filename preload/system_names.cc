// The C library's names that this library uses and ISO C leaves to programs, defined for this
// library alone: hidden, so that its own calls come here, and neither the program's `read` nor a
// plugin's. Hot: no allocation.
//
// What is a system call is made by its instruction; it is no place where a thread is cancelled. For
// the rest see forwarded_names.cc. scripts/gates/check_names.py sees that no name is left out.

// Under other names, linked into a test, the library uses the C library's functions as they are.
#ifndef MEMO_NAME

#include <fcntl.h>
#include <grp.h>
#include <linux/mman.h>
#include <poll.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <unistd.h>
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdint>
#include <cstring>

#include "src/base/system_call.h"

// The headers' attributes are of the C library's functions.
#pragma GCC diagnostic ignored "-Wmissing-attributes"
#pragma GCC diagnostic ignored "-Wignored-attributes"
// NOLINTBEGIN(readability-identifier-naming,readability-inconsistent-declaration-parameter-name,cert-dcl37-c)

namespace {

using memo::os::system_call;

template <typename Result = int>
Result told(long answer) {
  if (answer < 0 && answer >= -4095) {
    errno = static_cast<int>(-answer);
    return static_cast<Result>(-1);
  }
  return static_cast<Result>(answer);
}

// The C library's own signals, which it keeps out of every set: a thread that blocks them holds up
// setuid().
constexpr std::uint64_t kSignalsOfLibc = 3ULL << 31U;

std::uint64_t& bits_of(sigset_t* set) {
  return *reinterpret_cast<std::uint64_t*>(set);
}

std::uint64_t bit_of(int signal) {
  return 1ULL << (static_cast<unsigned>(signal) - 1U);
}

constexpr std::size_t kKernelSet = 8;  // bytes of the kernel's set of signals

}  // namespace

extern "C" {

// Memory. Three names are what the library shows as well (page_calls.cc): the linker gives this
// object's own calls these instead (--wrap).

void* __wrap_mmap(void* start, size_t bytes, int access, int flags, int file,
                  off_t offset) noexcept {
  return reinterpret_cast<void*>(
      told<long>(system_call(SYS_mmap, start, bytes, access, flags, file, offset)));
}
int munmap(void* start, size_t bytes) noexcept {
  return told(system_call(SYS_munmap, start, bytes));
}
int __wrap_mprotect(void* start, size_t bytes, int access) noexcept {
  return told(system_call(SYS_mprotect, start, bytes, access));
}
void* mremap(void* start, size_t bytes, size_t to, int flags, ...) noexcept {
  va_list rest;
  va_start(rest, flags);
  void* const place = (flags & MREMAP_FIXED) != 0 ? va_arg(rest, void*) : nullptr;
  va_end(rest);
  return reinterpret_cast<void*>(
      told<long>(system_call(SYS_mremap, start, bytes, to, flags, place)));
}
int __wrap_madvise(void* start, size_t bytes, int advice) noexcept {
  return told(system_call(SYS_madvise, start, bytes, advice));
}
int mincore(void* start, size_t bytes, unsigned char* pages) noexcept {
  return told(system_call(SYS_mincore, start, bytes, pages));
}
int mlock(const void* start, size_t bytes) noexcept {
  return told(system_call(SYS_mlock, start, bytes));
}
int mlock2(const void* start, size_t bytes, unsigned flags) noexcept {
  return told(system_call(SYS_mlock2, start, bytes, flags));
}
int munlock(const void* start, size_t bytes) noexcept {
  return told(system_call(SYS_munlock, start, bytes));
}
int munlockall() noexcept {
  return told(system_call(SYS_munlockall));
}
ssize_t process_vm_readv(pid_t process, const iovec* to, unsigned long count, const iovec* from,
                         unsigned long pieces, unsigned long flags) noexcept {
  return told<ssize_t>(system_call(SYS_process_vm_readv, process, to, count, from, pieces, flags));
}

// Files

int open(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const unsigned mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(rest, unsigned) : 0;
  va_end(rest);
  return told(system_call(SYS_openat, AT_FDCWD, path, flags, mode));
}
int openat(int folder, const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const unsigned mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(rest, unsigned) : 0;
  va_end(rest);
  return told(system_call(SYS_openat, folder, path, flags, mode));
}
int close(int file) {
  return told(system_call(SYS_close, file));
}
ssize_t read(int file, void* to, size_t bytes) {
  return told<ssize_t>(system_call(SYS_read, file, to, bytes));
}
ssize_t pread(int file, void* to, size_t bytes, off_t offset) {
  return told<ssize_t>(system_call(SYS_pread64, file, to, bytes, offset));
}
ssize_t write(int file, const void* from, size_t bytes) {
  return told<ssize_t>(system_call(SYS_write, file, from, bytes));
}
off_t lseek(int file, off_t offset, int from) noexcept {
  return told<off_t>(system_call(SYS_lseek, file, offset, from));
}
int fcntl(int file, int command, ...) {
  va_list rest;
  va_start(rest, command);
  const long argument = va_arg(rest, long);
  va_end(rest);
  return told(system_call(SYS_fcntl, file, command, argument));
}
int flock(int file, int operation) noexcept {
  return told(system_call(SYS_flock, file, operation));
}
int poll(pollfd* files, nfds_t count, int milliseconds) {
  timespec limit{milliseconds / 1000, milliseconds % 1000 * 1'000'000L};
  return told(system_call(SYS_ppoll, files, count, milliseconds < 0 ? nullptr : &limit, nullptr,
                          kKernelSet));
}
int access(const char* path, int mode) noexcept {
  return told(system_call(SYS_faccessat, AT_FDCWD, path, mode));
}
int stat(const char* path, struct stat* status) noexcept {
  return told(system_call(SYS_newfstatat, AT_FDCWD, path, status, 0));
}
int lstat(const char* path, struct stat* status) noexcept {
  return told(system_call(SYS_newfstatat, AT_FDCWD, path, status, AT_SYMLINK_NOFOLLOW));
}
int fstat(int file, struct stat* status) noexcept {
  return told(system_call(SYS_fstat, file, status));
}
int fchmod(int file, mode_t mode) noexcept {
  return told(system_call(SYS_fchmod, file, mode));
}
int fchown(int file, uid_t user, gid_t group) noexcept {
  return told(system_call(SYS_fchown, file, user, group));
}
int mkdir(const char* path, mode_t mode) noexcept {
  return told(system_call(SYS_mkdirat, AT_FDCWD, path, mode));
}
int unlink(const char* path) noexcept {
  return told(system_call(SYS_unlinkat, AT_FDCWD, path, 0));
}
int unlinkat(int folder, const char* path, int flags) noexcept {
  return told(system_call(SYS_unlinkat, folder, path, flags));
}
int utimensat(int folder, const char* path, const timespec times[2], int flags) noexcept {
  return told(system_call(SYS_utimensat, folder, path, times, flags));
}
ssize_t readlink(const char* path, char* to, size_t bytes) noexcept {
  return told<ssize_t>(system_call(SYS_readlinkat, AT_FDCWD, path, to, bytes));
}

// The process and the machine

pid_t getpid() noexcept {
  return static_cast<pid_t>(system_call(SYS_getpid));
}
pid_t getppid() noexcept {
  return static_cast<pid_t>(system_call(SYS_getppid));
}
uid_t geteuid() noexcept {
  return static_cast<uid_t>(system_call(SYS_geteuid));
}
gid_t getegid() noexcept {
  return static_cast<gid_t>(system_call(SYS_getegid));
}
int getgroups(int room, gid_t* groups) noexcept {
  return told(system_call(SYS_getgroups, room, groups));
}
int uname(utsname* system) noexcept {
  return told(system_call(SYS_uname, system));
}
int gethostname(char* name, size_t bytes) noexcept {
  utsname system;
  if (uname(&system) != 0) {
    return -1;
  }
  const std::size_t size = std::strlen(system.nodename) + 1;
  std::memcpy(name, system.nodename, size < bytes ? size : bytes);
  if (size > bytes) {
    errno = ENAMETOOLONG;
    return -1;
  }
  return 0;
}
int sysinfo(struct sysinfo* info) noexcept {
  return told(system_call(SYS_sysinfo, info));
}
int getrlimit(__rlimit_resource_t kind, rlimit* limit) noexcept {
  return told(system_call(SYS_prlimit64, 0, kind, nullptr, limit));
}
int getrusage(__rusage_who_t who, rusage* used) noexcept {
  return told(system_call(SYS_getrusage, who, used));
}
int setpriority(__priority_which_t which, id_t who, int value) noexcept {
  return told(system_call(SYS_setpriority, which, who, value));
}
int sched_getscheduler(pid_t thread) noexcept {
  return told(system_call(SYS_sched_getscheduler, thread));
}
int sched_setscheduler(pid_t thread, int policy, const sched_param* parameters) noexcept {
  return told(system_call(SYS_sched_setscheduler, thread, policy, parameters));
}
int sched_setaffinity(pid_t thread, size_t bytes, const cpu_set_t* processors) noexcept {
  return told(system_call(SYS_sched_setaffinity, thread, bytes, processors));
}
int sched_getcpu() noexcept {
  unsigned processor = 0;
  return system_call(SYS_getcpu, &processor, nullptr, nullptr) == 0 ? static_cast<int>(processor)
                                                                    : -1;
}
int prctl(int what, ...) noexcept {
  va_list rest;
  va_start(rest, what);
  unsigned long words[4];
  for (unsigned long& word : words) {
    word = va_arg(rest, unsigned long);
  }
  va_end(rest);
  return told(system_call(SYS_prctl, what, words[0], words[1], words[2], words[3]));
}
long syscall(long number, ...) noexcept {
  va_list rest;
  va_start(rest, number);
  long words[6];
  for (long& word : words) {
    word = va_arg(rest, long);
  }
  va_end(rest);
  return told<long>(
      system_call(number, words[0], words[1], words[2], words[3], words[4], words[5]));
}
// _SC_PAGESIZE alone: the kernel takes no address that is not a page's.
long sysconf(int name) noexcept {
  long size = name == _SC_PAGESIZE ? 4096 : -1;
  while (size > 0 && size < 65536 && madvise(reinterpret_cast<void*>(size), 0, MADV_NORMAL) != 0) {
    size *= 2;
  }
  return size;
}

// Signals

int sigemptyset(sigset_t* set) noexcept {
  *set = {};
  return 0;
}
int sigfillset(sigset_t* set) noexcept {
  std::memset(set, 0xff, sizeof *set);
  bits_of(set) &= ~kSignalsOfLibc;
  return 0;
}
int sigaddset(sigset_t* set, int signal) noexcept {
  bits_of(set) |= bit_of(signal);
  return 0;
}
int sigdelset(sigset_t* set, int signal) noexcept {
  bits_of(set) &= ~bit_of(signal);
  return 0;
}
int sigismember(const sigset_t* set, int signal) noexcept {
  return (bits_of(const_cast<sigset_t*>(set)) & bit_of(signal)) != 0 ? 1 : 0;
}
int sigpending(sigset_t* set) noexcept {
  return told(system_call(SYS_rt_sigpending, set, kKernelSet));
}
int pthread_sigmask(int how, const sigset_t* set, sigset_t* before) noexcept {
  std::uint64_t wanted = 0;
  if (set != nullptr) {
    wanted = bits_of(const_cast<sigset_t*>(set)) & ~kSignalsOfLibc;
  }
  return -static_cast<int>(
      system_call(SYS_rt_sigprocmask, how, set != nullptr ? &wanted : nullptr, before, kKernelSet));
}

// Text of the C++ library's own messages

char* gettext(const char* text) noexcept {
  return const_cast<char*>(text);
}

}  // extern "C"
// NOLINTEND(readability-identifier-naming,readability-inconsistent-declaration-parameter-name,cert-dcl37-c)

#endif
