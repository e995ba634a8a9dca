// The functions of other allocators that hooks.def lists as Peer, as their own headers declare
// them. Source: jemalloc(3); gperftools/tcmalloc.h and malloc_extension_c.h; mimalloc.h; malloc(3)
// of macOS and FreeBSD for the names without a prefix.
#pragma once

#include <cstddef>

extern "C" {
// jemalloc
std::size_t sallocx(const void* pointer, int flags) noexcept;
void dallocx(void* pointer, int flags) noexcept;
void sdallocx(void* pointer, std::size_t size, int flags) noexcept;
std::size_t xallocx(void* pointer, std::size_t size, std::size_t extra, int flags) noexcept;
void* rallocx(void* pointer, std::size_t size, int flags) noexcept;
// several
std::size_t malloc_size(const void* pointer) noexcept;
void cfree(void* pointer) noexcept;
// tcmalloc
void tc_free(void* pointer) noexcept;
void tc_cfree(void* pointer) noexcept;
void tc_free_sized(void* pointer, std::size_t size) noexcept;
std::size_t tc_malloc_size(void* pointer) noexcept;
// NOLINTNEXTLINE(readability-identifier-naming): not our name
std::size_t MallocExtension_GetAllocatedSize(const void* pointer) noexcept;
// mimalloc
void mi_free(void* pointer) noexcept;
void mi_cfree(void* pointer) noexcept;
void mi_free_size(void* pointer, std::size_t size) noexcept;
void mi_free_aligned(void* pointer, std::size_t alignment) noexcept;
void mi_free_size_aligned(void* pointer, std::size_t size, std::size_t alignment) noexcept;
std::size_t mi_usable_size(const void* pointer) noexcept;
std::size_t mi_malloc_size(const void* pointer) noexcept;
std::size_t mi_malloc_usable_size(const void* pointer) noexcept;
}
