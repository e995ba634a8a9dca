// MEMOMALLOC_OBSERVE: everything is learned and planned, and nothing is served. Each large block is
// the next allocator's; the engine gives a shadow of it, an address that nobody touches, and is told
// when the block is freed. It learns, plans and counts by the shadows as it would by blocks. What
// would have been won is measured (preload/shadows.h). Hot, where it is asked for.
#pragma once

#include <cstddef>

#include "src/engine/lane.h"

namespace memo {

// The engine's answer to a request; nullptr: the next allocator's.
using AskEngine = void*(const Request& request);

// A block of the next allocator for a large request; nullptr where it has none.
void* observe_large(const Request& request, AskEngine& ask);
// Frees a block of the next allocator, of any size.
void observe_free(void* pointer);
// The next allocator's realloc of a block of any size.
void* observe_realloc(void* pointer, std::size_t size, AskEngine& ask);

}  // namespace memo
