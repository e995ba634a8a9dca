// Small blocks aligned to a cache line, which the C library's malloc makes slowly. Hot; any thread, each for itself.
//
// glibc cuts each out of a larger block under its arena's lock, and hands out none that was freed (2.36, malloc/malloc.c,
// _int_memalign). A network's matrix library asks for many that live shortly: EfficientNetV2-S for 33,000 an iteration.
// So what a thread frees of them is kept for its next request: 2 to 3 % of the time of EfficientNetV2-S and mnasnet, 1 %
// of ShuffleNetV2's (bench/README.md). Where another allocator is next, which has caches of its own for them, nothing is
// kept.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/base/guard.h"
#include "src/base/kept_blocks.h"

namespace memo {

// Once, at start, when the next allocator is known: blocks are kept from now on, if that may be.
void keep_aligned();

// True if free_aligned() is to be asked for a block of the next allocator.
inline bool may_be_kept(const void* block) {
  return reinterpret_cast<std::uint64_t>(block) % KeptBlocks::kAlignment == 0 &&
         t_state.kept != nullptr;
}
// Keeps the block, or frees it.
void free_aligned(void* block);

// A block that was kept; nullptr: ask the next allocator, and tell got_aligned() what it gave.
void* take_aligned(std::size_t alignment, std::size_t size);
void got_aligned(void* block, std::size_t alignment, std::size_t size);

// Frees what the calling thread keeps; where it ends, it keeps nothing any more.
void give_aligned_back();
void leave_aligned();

}  // namespace memo
