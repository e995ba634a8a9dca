// The C library's names that this library uses, ISO C leaves to programs, and are more than a
// system call: hidden ones, as those of system_names.cc. Each is the C library's own function,
// looked up behind the program (RTLD_NEXT) where the library starts. Hot: no allocation.
#include "preload/system_names.h"

// Under other names, linked into a test, the library uses the C library's functions as they are.
#ifdef MEMO_NAME

namespace memo {

void find_system_names() {}

}  // namespace memo

#else

#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>
#include <sys/auxv.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "preload/process.h"
#include "src/base/system_call.h"

// The headers' attributes are of the C library's functions.
#pragma GCC diagnostic ignored "-Wmissing-attributes"
#pragma GCC diagnostic ignored "-Wignored-attributes"
// NOLINTBEGIN(readability-identifier-naming,readability-inconsistent-declaration-parameter-name,cert-dcl37-c)

namespace {

using Name = memo::state::SystemNames::Name;

std::atomic<void*>& place_of(Name name) {
  return memo::g_process.system_names.functions[static_cast<int>(name)];
}

// Looked up once; nullptr where the C library has it not.
template <typename Function>
Function* find(Name name, const char* text) {
  void* found = place_of(name).load(std::memory_order_acquire);
  if (found == nullptr) {
    found = dlsym(RTLD_NEXT, text);
    place_of(name).store(found, std::memory_order_release);
  }
  return reinterpret_cast<Function*>(found);
}

#define NEXT(name) find<decltype(::name)>(Name::k_##name, #name)

}  // namespace

namespace memo {

void find_system_names() {
#define FORWARDED(name, result, parameters, arguments) NEXT(name);
#include "preload/system_names.def"
  find<decltype(::clock_gettime)>(Name::kClock, "clock_gettime");
}

}  // namespace memo

extern "C" {

// By the kernel's page that is mapped for it (vDSO), which the C library knows.
int clock_gettime(clockid_t clock, timespec* time) noexcept {
  // Without a look-up, whose locks the caller may be under.
  void* const next = place_of(Name::kClock).load(std::memory_order_acquire);
  if (next != nullptr) {
    return reinterpret_cast<decltype(::clock_gettime)*>(next)(clock, time);
  }
  const long answer = memo::os::system_call(SYS_clock_gettime, clock, time);
  errno = answer < 0 ? static_cast<int>(-answer) : errno;
  return answer < 0 ? -1 : 0;
}
#define FORWARDED(name, result, parameters, arguments) \
  result name parameters {                             \
    return NEXT(name) arguments;                       \
  }
#include "preload/system_names.def"

}  // extern "C"
#undef NEXT
// NOLINTEND(readability-identifier-naming,readability-inconsistent-declaration-parameter-name,cert-dcl37-c)

#endif
