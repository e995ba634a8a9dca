// Which calls and blocks are the engine's, and which the underlying allocator's. Hot.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "preload/process.h"
#include "src/base/check.h"
#include "src/base/tuning.h"

namespace memo::shim {

inline constexpr std::uint64_t kMaxBytes = PTRDIFF_MAX;
inline constexpr std::uint64_t kDefaultAlignment = 16;  // of malloc on all 64-bit ABIs

inline bool is_large(std::uint64_t size) {
  return size >= g_process.threshold && g_process.threshold != 0 && size <= kMaxBytes;
}

// True if the block is the underlying allocator's for certain; nullptr is. Blocks of threads' own
// heaps, and of allocators that map their memory, lie above the border too. `fast_below` is 0 while
// the underlying allocator is sought, and for an observer, which sees each free.
inline bool is_next(const void* pointer) {
  const Process& process = g_process;
#ifdef MEMO_TSAN
  const std::uint64_t lowest = __atomic_load_n(&process.lowest, __ATOMIC_RELAXED);
#else
  const std::uint64_t lowest = process.lowest;  // the same load, but compared where it lies
#endif
  if (reinterpret_cast<std::uint64_t>(pointer) < lowest) [[likely]] {
    return true;
  }
  return process.fast_below != 0 && !process.engine.owns(pointer) &&
         !process.bootstrap.owns(pointer);
}

// The call for `bytes` is among a process' first large ones, which are passed on. A very large one
// counts as several.
inline bool is_early(std::uint64_t bytes) {
  const std::uint64_t more =
      std::min<std::uint64_t>(bytes / tuning::kEarlyBytes, tuning::kEarlyCalls);
  const auto calls = static_cast<std::uint32_t>(1 + more);
  const std::uint32_t before = g_process.early.fetch_add(calls, std::memory_order_relaxed);
  return before + calls <= tuning::kEarlyCalls;
}

// A small block of the underlying allocator, of `now` bytes (0: not known), is to become one of
// `bytes`, many times its size: such a block does not grow, it is asked for in two steps.
inline bool is_step(std::size_t now, std::size_t bytes) {
  return now != 0 && now < g_process.threshold && now <= bytes / tuning::kStepOfGrowth;
}

// Moves what is in a block of the underlying allocator to `block`, which is larger; that block.
inline void* move_next(void* pointer, void* block) {
  MEMO_DCHECK(block != nullptr);
  std::memcpy(block, pointer, g_process.next.malloc_usable_size(pointer));
  g_process.next.free(pointer);
  return block;
}

}  // namespace memo::shim
