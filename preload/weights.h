// What a process holds since before it served, and never frees: its weights. With
// MEMOMALLOC_SHARE=weights they are offered to the kernel's same-page merging, so that workers that
// have loaded the same weights hold them once. An experiment; docs/servers.md has what it brings and
// costs. On a machine of several memory nodes preload/nodes.h brings those that are not offered where
// they are read. Cold; the background thread's.
#pragma once

#include <cstdint>

namespace memo {

// Does the next part of it, where somebody wants to know them: a few milliseconds at most.
void keep_weights();

// Bytes offered so far. Any thread.
std::uint64_t shared_weights();

// True while the blocks that are marked (src/serve/lasting.h) are weights. Any thread.
bool weights_known();

// In a forked child, which has weights of its own.
void forget_weights();

}  // namespace memo
