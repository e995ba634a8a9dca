// torch's own two functions for tensors, c10::alloc_cpu and c10::free_cpu. Hot but for a caller's
// first call.
//
// torch's wheels for AArch64 hold mimalloc, so that tensors never reach malloc; but they call these
// two through the dynamic linker. Each block of such a library (hidden) that is large is asked of
// the engine first. A c10 that goes through malloc anyway is called as it is: its blocks are seen
// there.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "preload/next.h"

namespace memo {

// What one copy of libc10 has.
struct C10 {
  void* (*alloc)(std::size_t) = nullptr;  // nullptr: there is none
  void (*free)(void*) = nullptr;
  // Its two flags that want blocks filled; nullptr: no block of it is served.
  const bool* zero_fill = nullptr;
  const bool* junk_fill = nullptr;
};

// The objects that have called, and the c10 of each; only ever added to. Objects in it are not
// unloaded any more.
class C10Callers {
 public:
  // As many as are remembered: torch has four that call, and each further one is looked up anew.
  static constexpr std::uint32_t kCallers = 16;

  // The c10 of the object that `code` is in.
  C10 find(const void* code);

 private:
  struct Caller {
    std::uint64_t start = 0;
    std::atomic<std::uint64_t> end{0};  // 0: not filled in yet
    C10 c10;
  };

  C10 add(const void* code);

  Caller callers_[kCallers];
  std::atomic<std::uint32_t> count_{0};
};

// What the two entry points do; `caller`: their return address. Exceptions of the original pass.
void* c10_alloc(std::size_t size, const void* caller);
void c10_free(void* pointer, const void* caller);

}  // namespace memo
