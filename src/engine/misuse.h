// What is said of a pointer that the host misuses, before the process ends: a free, realloc or
// query of what is no block, a second free, a sized free with another size. Cold; allocates
// nothing.
#pragma once

#include <cstdint>

#include "src/engine/engine.h"

namespace memo {

// One line that names `function`, the pointer, the thread, and what lies there (address, size, slab
// or pool, in use or freed), then abort(). The pointer is in the engine's region.
[[noreturn]] void report_pointer(const Engine& engine, const char* function, const void* pointer);
// The same for a block that is not of the size, or not at the alignment, that the host says.
[[noreturn]] void report_size(const Engine& engine, const char* function, const void* pointer,
                              std::uint64_t said);
[[noreturn]] void report_alignment(const Engine& engine, const char* function, const void* pointer,
                                   std::uint64_t said);
}  // namespace memo
