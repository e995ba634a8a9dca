// The C library's names that this library uses, ISO C leaves to programs, and are more than a system call: hidden ones, as
// those of system_names.cc. Each is the C library's own function, looked up behind the program (RTLD_NEXT) where the
// library starts. Hot: no allocation.
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
#include <ctime>

#include "src/base/system_call.h"

// The headers' attributes are of the C library's functions.
#pragma GCC diagnostic ignored "-Wmissing-attributes"
#pragma GCC diagnostic ignored "-Wignored-attributes"
// NOLINTBEGIN(readability-identifier-naming,readability-inconsistent-declaration-parameter-name,cert-dcl37-c)

namespace {

// Looked up once; nullptr where the C library has it not.
template <typename Function>
class Next {
 public:
  constexpr explicit Next(const char* name) : name_(name) {}
  Function* find() {
    Function* found = at_.load(std::memory_order_acquire);
    if (found == nullptr) {
      found = reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name_));
      at_.store(found, std::memory_order_release);
    }
    return found;
  }
  // Without a look-up, whose locks the caller may be under.
  Function* known() const { return at_.load(std::memory_order_acquire); }

 private:
  const char* name_;
  std::atomic<Function*> at_{nullptr};
};

#define FORWARDED(name) constinit Next<decltype(::name)> next_##name(#name);
#include "preload/system_names.def"

constinit Next<decltype(::clock_gettime)> next_clock("clock_gettime");

}  // namespace

namespace memo {

void find_system_names() {
#define FORWARDED(name) next_##name.find();
#include "preload/system_names.def"
  next_clock.find();
}

}  // namespace memo

extern "C" {

// By the kernel's page that is mapped for it (vDSO), which the C library knows.
int clock_gettime(clockid_t clock, timespec* time) noexcept {
  if (auto* const next = next_clock.known(); next != nullptr) {
    return next(clock, time);
  }
  const long answer = memo::os::system_call(SYS_clock_gettime, clock, time);
  errno = answer < 0 ? static_cast<int>(-answer) : errno;
  return answer < 0 ? -1 : 0;
}
int dlclose(void* handle) noexcept {
  return next_dlclose.find()(handle);
}
int dladdr(const void* code, Dl_info* info) noexcept {
  return next_dladdr.find()(code, info);
}
int dladdr1(const void* code, Dl_info* info, void** more, int flags) noexcept {
  return next_dladdr1.find()(code, info, more, flags);
}
unsigned long getauxval(unsigned long type) noexcept {
  return next_getauxval.find()(type);
}
char* secure_getenv(const char* name) noexcept {
  return next_secure_getenv.find()(name);
}
DIR* opendir(const char* path) {
  return next_opendir.find()(path);
}
dirent* readdir(DIR* folder) {
  return next_readdir.find()(folder);
}
int closedir(DIR* folder) {
  return next_closedir.find()(folder);
}
int statvfs(const char* path, struct statvfs* status) noexcept {
  return next_statvfs.find()(path, status);
}
pthread_t pthread_self() noexcept {
  return next_pthread_self.find()();
}
int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*body)(void*),
                   void* argument) noexcept {
  return next_pthread_create.find()(thread, attributes, body, argument);
}
int pthread_getattr_np(pthread_t thread, pthread_attr_t* attributes) noexcept {
  return next_pthread_getattr_np.find()(thread, attributes);
}
int pthread_attr_init(pthread_attr_t* attributes) noexcept {
  return next_pthread_attr_init.find()(attributes);
}
int pthread_attr_destroy(pthread_attr_t* attributes) noexcept {
  return next_pthread_attr_destroy.find()(attributes);
}
int pthread_attr_getstack(const pthread_attr_t* attributes, void** start, size_t* bytes) noexcept {
  return next_pthread_attr_getstack.find()(attributes, start, bytes);
}
int pthread_attr_setdetachstate(pthread_attr_t* attributes, int state) noexcept {
  return next_pthread_attr_setdetachstate.find()(attributes, state);
}
int pthread_attr_setstacksize(pthread_attr_t* attributes, size_t bytes) noexcept {
  return next_pthread_attr_setstacksize.find()(attributes, bytes);
}
int pthread_key_delete(pthread_key_t key) noexcept {
  return next_pthread_key_delete.find()(key);
}
int pthread_setspecific(pthread_key_t key, const void* value) noexcept {
  return next_pthread_setspecific.find()(key, value);
}
int pthread_setcancelstate(int state, int* before) {
  return next_pthread_setcancelstate.find()(state, before);
}
int pthread_mutex_lock(pthread_mutex_t* mutex) noexcept {
  return next_pthread_mutex_lock.find()(mutex);
}
int pthread_mutex_unlock(pthread_mutex_t* mutex) noexcept {
  return next_pthread_mutex_unlock.find()(mutex);
}
int pthread_once(pthread_once_t* once, void (*function)()) {
  return next_pthread_once.find()(once, function);
}

}  // extern "C"
// NOLINTEND(readability-identifier-naming,readability-inconsistent-declaration-parameter-name,cert-dcl37-c)

#endif
