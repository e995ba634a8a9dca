// The original of c10::alloc_cpu and c10::free_cpu for each object that calls them. Hot but for an
// object's first call.
//
// torch is loaded into scopes of its own, where RTLD_NEXT does not look: the original is the one
// that the dynamic linker would have bound the caller to.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "preload/next.h"

namespace memo {

// What one copy of libc10 has. One that has but one of the two functions, as another release may,
// gets back what it gave, and none of its blocks is served.
struct C10 {
  void* (*alloc)(std::size_t) = nullptr;
  void (*free)(void*) = nullptr;
  // Its two flags that want blocks filled; nullptr: no block of it is served.
  const bool* zero_fill = nullptr;
  const bool* junk_fill = nullptr;
  // The path of one that has an allocator of its own, and is not served.
  const char* left_alone = nullptr;

  [[nodiscard]] bool there() const { return alloc != nullptr || free != nullptr; }
};

// The objects that have called, and the c10 of each; only ever added to. Objects in it are not
// unloaded any more.
class C10Callers {
 public:
  // As many as are remembered: torch has four that call, and each further one is looked up again.
  static constexpr std::uint32_t kCallers = 16;

  // The c10 of the object that `code` is in; `walk` as in extent_of().
  C10 find(const void* code, decltype(&::dl_iterate_phdr) walk);

 private:
  struct Caller {
    std::uint64_t start = 0;
    std::atomic<std::uint64_t> end{0};  // 0: not filled in yet
    C10 c10;
  };

  C10 add(const void* code, decltype(&::dl_iterate_phdr) walk);

  Caller callers_[kCallers];
  std::atomic<std::uint32_t> count_{0};
};

}  // namespace memo
