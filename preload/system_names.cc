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
#include <sys/auxv.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/shm.h>
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

#define SYSTEM_CALL(result, name, parameters, ...) \
  result name parameters {                         \
    return told<result>(system_call(__VA_ARGS__)); \
  }
#include "preload/system_names.def"

// Memory. Some names are what the library shows as well: the linker gives this object's own calls
// these instead (--wrap).

void* __wrap_mmap(void* start, size_t bytes, int access, int flags, int file,
                  off_t offset) noexcept {
  return reinterpret_cast<void*>(
      told<long>(system_call(SYS_mmap, start, bytes, access, flags, file, offset)));
}
void* __wrap_mremap(void* start, size_t bytes, size_t to, int flags, ...) noexcept {
  va_list rest;
  va_start(rest, flags);
  void* const place = (flags & MREMAP_FIXED) != 0 ? va_arg(rest, void*) : nullptr;
  va_end(rest);
  return reinterpret_cast<void*>(
      told<long>(system_call(SYS_mremap, start, bytes, to, flags, place)));
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
int fcntl(int file, int command, ...) {
  va_list rest;
  va_start(rest, command);
  const long argument = va_arg(rest, long);
  va_end(rest);
  return told(system_call(SYS_fcntl, file, command, argument));
}
int poll(pollfd* files, nfds_t count, int milliseconds) {
  timespec limit{milliseconds / 1000, milliseconds % 1000 * 1'000'000L};
  return told(system_call(SYS_ppoll, files, count, milliseconds < 0 ? nullptr : &limit, nullptr,
                          kKernelSet));
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
int __wrap_prctl(int what, ...) noexcept {
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
// _SC_PAGESIZE alone: what the process was told at its start, or more, where an address of the
// largest pages is taken and one of smaller pages is not. A filter's answers are the same for all.
long sysconf(int name) noexcept {
  constexpr long kLargest = 65536;
  const auto taken = [](long address) {
    return madvise(reinterpret_cast<void*>(address), 0, MADV_NORMAL) == 0;
  };
  long size = name == _SC_PAGESIZE ? static_cast<long>(getauxval(AT_PAGESZ)) : -1;
  if (size > 0 && taken(kLargest)) {
    while (size < kLargest && !taken(size)) {
      size *= 2;
    }
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
