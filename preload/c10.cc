#include "preload/c10.h"

#include "preload/process.h"
#include "preload/shim.h"
#include "src/base/message.h"

namespace memo {
namespace {

// c10's gAlignment, of every block; one of ours is page-aligned besides, as
// THP_MEM_ALLOC_ENABLE has it. Source: c10/core/alignment.h, c10/core/impl/alloc_cpu.cpp.
constexpr std::uint64_t kTensorAlignment = 64;

void tell_left_alone(const char* path) {
  if (g_process.options.VERBOSE >= 1 && !g_process.once.tensors_left_alone.exchange(true)) {
    Line() << path
           << ": tensors are left to it: it has other functions for them, or moves them to memory "
              "nodes";
  }
}

C10 original(const void* caller) {
  const C10 c10 = g_process.c10.find(caller, g_process.next.dl_iterate_phdr);
  if (c10.left_alone != nullptr) [[unlikely]] {
    tell_left_alone(c10.left_alone);
  }
  return c10;
}

bool may_serve(const C10& c10) {
  return c10.zero_fill != nullptr && c10.junk_fill != nullptr && !*c10.zero_fill && !*c10.junk_fill;
}

}  // namespace

void* c10_alloc(std::size_t size, const void* caller) {
  const C10 c10 = original(caller);
  if (c10.alloc == nullptr) {  // nobody's original
    void* block = nullptr;
    return size != 0 && shim::posix_memalign(&block, kTensorAlignment, size) == 0 ? block : nullptr;
  }
  // Observing serves nothing, and sees malloc's blocks alone.
  if (may_serve(c10) && !g_process.observes) {
    void* block = shim::large_aligned(kTensorAlignment, size, Op::k_posix_memalign);
    if (block != nullptr) {
      return block;
    }
  }
  return c10.alloc(size);
}

void c10_free(void* pointer, const void* caller) {
  if (g_process.engine.owns(pointer)) {
    return shim::free(pointer);
  }
  const C10 c10 = original(caller);
  c10.free != nullptr ? c10.free(pointer) : shim::free(pointer);
}

}  // namespace memo
