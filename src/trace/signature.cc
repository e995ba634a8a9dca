#include "src/trace/signature.h"

#include <pthread.h>
#include <sys/auxv.h>
#include <sys/resource.h>
#include <algorithm>
#include <cerrno>

#include "src/base/guard.h"
#include "src/base/tuning.h"
#include "src/trace/code_location.h"
#include "src/trace/site_log.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace memo {
namespace {

// Of the main thread's stack, when the library was loaded. Asked for then, since a program may take
// the question from itself.
constinit std::uint64_t stack_limit = 0;

void note_stack_limit() {
  const int saved = errno;
  rlimit limit{};
  if (getrlimit(RLIMIT_STACK, &limit) == 0) {
    stack_limit = limit.rlim_cur;
  }
  errno = saved;
}

// The main thread's stack where /proc cannot be read (a bare chroot, no descriptor left), which is
// where the C library looks: it ends behind the program's name. Of no use to another thread, whose
// frames lie outside.
StackBounds guess_main_stack() {
  // What may lie above the highest word that is known, and the gap that the kernel keeps below.
  const std::uint64_t margin = tuning::kUsualStack / 4;
  const std::uint64_t high = getauxval(AT_EXECFN) / sizeof(void*) * sizeof(void*);
  const std::uint64_t bytes = std::min(stack_limit, tuning::kUsualStack);
  if (high < bytes || bytes <= margin) {
    return {};
  }
  return {high - (bytes - margin), high};
}

}  // namespace

void load_unwinder(bool log_sites) {
  if (log_sites) {
    open_site_log();
  }
  prepare_code_locations();
  note_stack_limit();
}

StackBounds find_stack_bounds() {
  StackBounds bounds;
  pthread_attr_t attributes;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) {
    return guess_main_stack();
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

// Noinline: the caller's frame begins where this one's ends, and its frame pointer is the first
// word of this one's frame record.
[[gnu::noinline]] std::uint64_t stack_signature(const StackBounds& stack) {
  if (in_loader() || stack.room() < tuning::kUnwindStack) {
    return 0;
  }
  const FrameState caller{reinterpret_cast<std::uint64_t>(__builtin_return_address(0)),
                          reinterpret_cast<std::uint64_t>(__builtin_dwarf_cfa()),
                          *static_cast<const std::uint64_t*>(__builtin_frame_address(0))};
  const void* frames[tuning::kMaxFrames];
  std::uint64_t places[tuning::kMaxFrames];
  const int count = walk_stack(stack, caller, frames, places, tuning::kMaxFrames);
  if (count <= 0) {
    return 0;
  }
  const std::uint64_t signature =
      XXH3_64bits(places, sizeof places[0] * static_cast<std::size_t>(count));
  note_site(signature, frames, count);
  return signature;
}

}  // namespace memo
