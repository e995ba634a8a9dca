// MEMOMALLOC_SHARE=weights: what a process holds since before it served, and never frees, is offered
// to the kernel's same-page merging, so that workers that have loaded the same weights hold them
// once. An experiment; docs/servers.md has what it brings and costs. Cold; the keeper's.
#pragma once

#include <cstdint>

namespace memo {

// Does the next part of it, if it is asked for: a few milliseconds at most.
void share_weights();

// Bytes offered so far. Any thread.
std::uint64_t shared_weights();

// In a forked child, which has weights of its own.
void forget_weights();

}  // namespace memo
