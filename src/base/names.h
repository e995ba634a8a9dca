// Names of mappings, as pmap and /proc/PID/smaps show them: [anon:memomalloc slab]. Hot; one system
// call.
#pragma once

#include <cstdint>

namespace memo::os {

// Gives the pages of [start, start + bytes), the library's own, a name of at most 79 letters. A
// wish: kernels without names (before 5.17, or CONFIG_ANON_VMA_NAME) refuse it silently, and a
// thread that has given system calls up does not ask. Keeps errno.
void name_mapping(const void* start, std::uint64_t bytes, const char* name);

}  // namespace memo::os
