// MEMOMALLOC_OBSERVE: everything is learned and planned, and nothing is served. Each large block is
// the underlying allocator's. The engine gives a stand-in for it, an address that nobody touches.
// Frees of the block reach the engine as well, so it learns, plans and counts as it does for blocks
// of its own. What serving would have saved is measured (preload/observed_blocks.h). Hot, where it
// is asked for.
#pragma once

#include <cstddef>

#include "src/engine/lane.h"

namespace memo {

// Takes the memory for it; false where the system refuses it. Once, before the first call.
bool start_observing();

// A block for the library itself; nullptr: the call is the program's, or there is no memory.
void* observe_own(std::size_t size);

// The engine's answer to a request; nullptr: the underlying allocator's.
using AskEngine = void*(const Request& request);

// A block of the underlying allocator for a large request of the program; nullptr where it has
// none.
void* observe_large(const Request& request, AskEngine& ask);
// As malloc_usable_size: of a block of the underlying allocator, or of the library's own.
std::size_t observe_size(void* pointer);
// Frees a block of the underlying allocator, of any size.
void observe_free(void* pointer);
// The underlying allocator's realloc of a block of any size.
void* observe_realloc(void* pointer, std::size_t size, AskEngine& ask);

}  // namespace memo
