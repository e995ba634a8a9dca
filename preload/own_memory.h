// Memory for the library itself where the underlying allocator is only observed: a plan that lies above
// the program's blocks would keep that allocator from releasing memory, as it does alone. Blocks
// of whole pages in chunks that are never given back. One lock, held for a look at a chunk; the
// list of chunks is read without.
#pragma once

#include <cstddef>

namespace memo::own_memory {

// nullptr: there is none, or others have the lock for long. Any thread.
void* allocate(std::size_t bytes);
bool owns(const void* pointer);
std::size_t size(const void* block);
void free(void* block);
// In a forked child, where a thread that does not exist may have the lock.
void forget_owner();

}  // namespace memo::own_memory
