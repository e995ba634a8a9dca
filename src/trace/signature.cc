#include "src/trace/signature.h"

#include <dlfcn.h>
#include <pthread.h>

#include "src/base/guard.h"
#include "src/base/os.h"
#include "src/trace/code_location.h"
#include "src/trace/site_log.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace memo {
namespace {

// libunwind's own frames take 8.6 KiB (measured); twice that stays untouched.
constexpr std::uint64_t kUnwindStack = 20ULL << 10;
constexpr int kDepth =
    24;  // deep enough to leave the tensor library, measured on torch: 3-43 distinct stacks

// int unw_backtrace(void** buffer, int size): return addresses of the caller and its callers.
using Unwind = int (*)(void**, int);
constinit Unwind unwind = nullptr;

}  // namespace

void load_unwinder(bool log_sites) {
  if (log_sites) {
    open_site_log();
  }
#ifdef __SANITIZE_THREAD__
  // libunwind's handler at a thread's end locks a mutex after ThreadSanitizer has taken the
  // thread's state down, and crashes in its interceptor.
  return;
#endif
  void* library = dlopen("libunwind.so.8", RTLD_NOW | RTLD_LOCAL);
  if (library != nullptr) {
    unwind = reinterpret_cast<Unwind>(dlsym(library, "unw_backtrace"));
  }
}

std::uint64_t StackBounds::room() const {
  const auto here = reinterpret_cast<std::uint64_t>(__builtin_frame_address(0));
  return here > low && here <= high ? here - low : 0;
}

StackBounds find_stack_bounds() {
  StackBounds bounds;
  pthread_attr_t attributes;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) {
    return bounds;
  }
  void* low = nullptr;
  std::size_t size = 0;
  if (pthread_attr_getstack(&attributes, &low, &size) == 0) {
    bounds.low = reinterpret_cast<std::uint64_t>(low);
    bounds.high = bounds.low + size;
  }
  pthread_attr_destroy(&attributes);
  return bounds;
}

std::uint64_t stack_signature(const StackBounds& stack) {
  if (unwind == nullptr || in_loader() || stack.room() < kUnwindStack) {
    return 0;
  }
  void* frames[kDepth];
  int count = 0;
  {
    const os::NoCancellation
        whole;  // libunwind tries addresses by system calls that may end threads
    count = unwind(frames, kDepth);
  }
  std::uint64_t places[kDepth];
  for (int i = 0; i < count; ++i) {
    places[i] = code_location(frames[i]);
  }
  if (count <= 0) {
    return 0;
  }
  const std::uint64_t signature =
      XXH3_64bits(places, sizeof places[0] * static_cast<std::size_t>(count));
  note_site(signature, frames, count);
  return signature;
}

}  // namespace memo
