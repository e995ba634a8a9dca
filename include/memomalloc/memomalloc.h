/* What a host program may call when it runs under libmemomalloc.so. Every function is weak: without
 * the library its address is null, so a host runs either way.
 *
 *   #include <memomalloc/memomalloc.h>
 *   for (;;) { if (memomalloc_iteration) memomalloc_iteration(); run_the_model(); }
 */
#ifndef MEMOMALLOC_H
#define MEMOMALLOC_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The library's version as text; a constant. */
const char* memomalloc_version(void) __attribute__((weak));

/* An iteration begins here on the calling thread. Optional: boundaries are found without it. */
void memomalloc_iteration(void) __attribute__((weak));

/* Writes the statistics as JSON into buffer (at most size bytes, ended by a zero) and returns the
 * length that the whole text has; if that is not less than size, the text was cut. Any thread. */
size_t memomalloc_stats_json(char* buffer, size_t size) __attribute__((weak));

/* Gives the slabs and all unused memory back to the system. Blocks in use stay valid. The program's
 * next iterations are served from a slab again. Any thread. */
void memomalloc_release(void) __attribute__((weak));

/* A handler for numpy's PyDataMem_SetHandler(), by which its arrays come from malloc; a constant of
 * numpy's type PyDataMem_Handler, version 1. For numpy on a CPython with an allocator of its own
 * for them; Python's memomalloc.numpy.use_malloc() sets it. */
const void* memomalloc_numpy_handler(void) __attribute__((weak));

#ifdef __cplusplus
}
#endif

#endif /* MEMOMALLOC_H */
