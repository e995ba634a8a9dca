// The semantics of each entry point: what to check, whom to ask, how a block crosses the borders
// between the engine's memory and the underlying allocator's. Hot.
#pragma once

#include <cstddef>
#include <cstdint>

#include "preload/next.h"
#include "src/engine/engine.h"

namespace memo::shim {

void* malloc(std::size_t size);
void free(void* pointer);
void* calloc(std::size_t count, std::size_t size);
void* realloc(void* pointer, std::size_t size);
int posix_memalign(void** result, std::size_t alignment, std::size_t size);
void* memalign(std::size_t alignment, std::size_t size);
std::size_t malloc_usable_size(void* pointer);
void* aligned_alloc(std::size_t alignment, std::size_t size, const void* caller);
// For the functions that take an alignment; nullptr: the underlying allocator's, which checks them,
// too.
void* large_aligned(std::uint64_t alignment, std::uint64_t size, Op op);
// free_sized() and free_aligned_sized() free a block whose size, and alignment, the host tells: for
// our blocks they are checked.
#define ENTRY(name, kind, result, parameters, arguments) result name parameters;
#include "preload/hooks.def"

// `place` counts where the flags name a new one.
void* mremap(void* start, std::size_t bytes, std::size_t to, int flags, void* place);

ssize_t vmsplice(int pipe, const struct iovec* parts, std::size_t count, unsigned flags);

// An object is loaded that looks for functions in itself and what it needs before it looks in this
// library.
void note_deep_binding(const char* file);

// Has the underlying allocator release what it keeps: takes all of its locks, whether the process
// has threads or not, and goes through its whole heap. Nothing where it has no malloc_trim.
void trim_next();

// Looks the underlying allocator up, unless that is done or under way.
void find_next_allocator();

// Where the system counts what is committed, small calls go the slow way from now on: refused
// memory, they ask again once slabs and pool have given up what they do not use. Looked at when the
// first block is served and when a lane's phase changes; a limit that is set later is not seen
// before.
void heed_limit();

// Sets the fields of g_process that decide the fast paths, from the options and the engine's
// region.
void open_fast_paths();

}  // namespace memo::shim
