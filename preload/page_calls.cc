// What a program does to the pages of its blocks, by the C library's functions, ends with their
// free: blocks of ours that such a call touches are noted, and come in new pages. Cold but for its
// place: no memory of its own, any thread, also in a signal handler. A call's answer is the C
// library's.
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <cstdarg>

#include "preload/process.h"
#include "preload/shim.h"

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18  // Linux 4.14
#endif

namespace memo::shim {
namespace {

constexpr int kGuardInstall = 102;               // MADV_GUARD_INSTALL, Linux 6.13
constexpr unsigned long kRegister = 0xC020AA00;  // UFFDIO_REGISTER
constexpr int kUsual = PROT_READ | PROT_WRITE;   // what a block has

void note(const void* start, std::size_t bytes) {
  g_process.engine.note_altered(start, bytes);
}

// Of the advice that stays with the pages, and is not undone by writing or by free.
bool stays(int advice) {
  return advice == MADV_DONTFORK || advice == MADV_WIPEONFORK || advice == MADV_DONTDUMP ||
         advice == MADV_MERGEABLE || advice == kGuardInstall;
}

// The next definition, once it is known; a call may come before, and from inside of the look-up.
template <typename Function, typename... Arguments>
auto pass_on(Function Next::* next, long number, Arguments... arguments) {
  using Result = decltype((g_process.next.*next)(arguments...));
  const bool known = __atomic_load_n(&g_process.next.malloc, __ATOMIC_ACQUIRE) != nullptr;
  return known && g_process.next.*next != nullptr
             ? (g_process.next.*next)(arguments...)
             : (Result)syscall(number, arguments...);  // NOLINT(google-readability-casting)
}

}  // namespace

int mprotect(void* start, std::size_t bytes, int access) {
  if (access != kUsual) {
    note(start, bytes);
  }
  return pass_on(&Next::mprotect, SYS_mprotect, start, bytes, access);
}

int pkey_mprotect(void* start, std::size_t bytes, int access, int key) {
  note(start, bytes);
  return pass_on(&Next::pkey_mprotect, SYS_pkey_mprotect, start, bytes, access, key);
}

void* mmap(void* start, std::size_t bytes, int access, int flags, int file, long at) {
  if ((flags & MAP_FIXED) != 0) {
    g_process.engine.note_replaced(start, bytes);
  }
  return pass_on(&Next::mmap, SYS_mmap, start, bytes, access, flags, file, at);
}

void* mmap64(void* start, std::size_t bytes, int access, int flags, int file, long at) {
  return shim::mmap(start, bytes, access, flags, file, at);
}

int madvise(void* start, std::size_t bytes, int advice) {
  if (stays(advice)) {
    note(start, bytes);
  }
  return pass_on(&Next::madvise, SYS_madvise, start, bytes, advice);
}

int ioctl(int file, unsigned long request, void* argument) {
  const int answer = static_cast<int>(syscall(SYS_ioctl, file, request, argument));
  if (request == kRegister && answer == 0) {
    const auto* const range = static_cast<const std::uint64_t*>(argument);
    note(reinterpret_cast<const void*>(range[0]), range[1]);
  }
  return answer;
}

}  // namespace memo::shim
