// The underlying allocator: whatever follows this library in the link chain. Hot.
#pragma once

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/uio.h>
#include <unistd.h>
#include <cstddef>
#include <cstdint>
#include <new>

// glibc has it from 2.33 on.
#if !__GLIBC_PREREQ(2, 33)
struct mallinfo2 {
  std::size_t arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks, uordblks, fordblks, keepcost;
};
extern "C" struct mallinfo2 mallinfo2() noexcept;
#endif

// And this from 2.36 on.
#if !__GLIBC_PREREQ(2, 36)
extern "C" ssize_t process_madvise(int process, const struct iovec* parts, std::size_t count,
                                   int advice, unsigned flags) noexcept;
#endif

// mallinfo() is, and is still called.
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

// ISO C's; <threads.h> declares it without saying that it throws nothing.
extern "C" int tss_create(unsigned* key, void (*end)(void*)) noexcept;

#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4  // Linux 5.7
#endif

// As they are called here and replaced; their headers, which have them variadic, are not included.
extern "C" int ioctl(int file, unsigned long request, void* argument) noexcept;
extern "C" int prctl(int option, unsigned long a, unsigned long b, unsigned long c,
                     unsigned long d) noexcept;

// C++'s operators new and delete by the names that the dynamic linker knows (Itanium C++ ABI,
// 5.1.5); those that may throw pass on what the next one throws. And other allocators' own
// functions. Source: jemalloc(3); gperftools/tcmalloc.h and malloc_extension_c.h; mimalloc.h;
// malloc(3) of macOS and FreeBSD for the names without a prefix.
extern "C" {
// NOLINTBEGIN(readability-identifier-naming,bugprone-reserved-identifier)
#define OPERATOR(name, kind, result, parameters, arguments) result name parameters;
#define PEER(name, kind, result, parameters, arguments, otherwise) result name parameters noexcept;
#include "preload/hooks.def"
// NOLINTEND(readability-identifier-naming,bugprone-reserved-identifier)
}

namespace memo {

// The addresses of an object of the process, [start, end); none where both are 0.
struct Extent {
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  [[nodiscard]] bool contains(const void* code) const {
    const auto at = reinterpret_cast<std::uint64_t>(code);
    return at >= start && at < end;
  }
};

// The functions that hooks.def names, found by dlsym(RTLD_NEXT); of an Optional or Peer one that is
// missing, nullptr. The operators are looked up apart (preload/operators.h).
struct Next {
#define HOOK_Required(name) decltype(&::name) name = nullptr;
#define HOOK_Optional(name) HOOK_Required(name)
#define HOOK_Peer(name) HOOK_Required(name)
#define HOOK_Operator(name) HOOK_Required(name)
#include "preload/hooks.def"

  bool of_libc = false;      // the C library's own malloc is next
  bool peers_known = false;  // the Peer functions were looked for

  // Of the object that the next realloc is in, which has to know every block: malloc and free may
  // be a library's that counts calls and passes them on.
  Extent object;
  [[nodiscard]] bool contains(const void* code) const { return object.contains(code); }
  // True of an operator of the allocator's own, which may take malloc's blocks and give them to
  // free: malloc and free are in the same object. Those of a wrapper may lead elsewhere.
  [[nodiscard]] bool is_own_operator(const void* code) const {
    return !of_libc && contains(code) && contains(reinterpret_cast<const void*>(malloc)) &&
           contains(reinterpret_cast<const void*>(free));
  }
  // Of the allocator whose operator new asks aligned_alloc, and whose operator delete takes only
  // its own blocks, as jemalloc's: what its code asks for must be its own. None where these
  // operators are the C++ library's.
  Extent operators;
  // True if malloc_trim is the underlying allocator's. glibc's stands behind any other as well, has
  // nothing there to give back, and sets itself up at its first call: two threads at once end the
  // process, the second in bins that are not there yet (glibc 2.36).
  [[nodiscard]] bool trims() const {
    return malloc_trim != nullptr && contains(reinterpret_cast<const void*>(malloc_trim));
  }
  // True if malloc_usable_size is the underlying allocator's: of one that has none, another's
  // answers for blocks that it does not know, and reads in front of them.
  [[nodiscard]] bool knows_sizes() const {
    return contains(reinterpret_cast<const void*>(malloc_usable_size));
  }
};

// Fills all of `next`, the table's first row last, so that a set first row means a whole table.
// Ends the process with one line if a required function is missing. dlsym may allocate: see
// bootstrap.h.
void find_next(Next& next);

// The extent of the object that `code` is in, empty if there is none. `walk` is the C library's
// dl_iterate_phdr; takes a lock of the dynamic linker.
Extent extent_of(const void* code, decltype(&::dl_iterate_phdr) walk);

// What the dynamic section of an object says of its symbols; nullptr where it does not.
struct Symbols {
  ElfW(Sym) * table = nullptr;
  const char* names = nullptr;
  const std::uint32_t* hash = nullptr;  // DT_GNU_HASH
  [[nodiscard]] bool told() const {
    return table != nullptr && names != nullptr && hash != nullptr;
  }
};
// `base`: where the object lies.
Symbols symbols_of(const ElfW(Dyn) * entry, ElfW(Addr) base);

// Looks for the Peer functions of whatever follows in the link chain, unless that is done: at start
// where the underlying allocator is not the C library's, else when one of ours is called. Then
// another library may have a function of that name.
void find_peers(Next& next);

// Takes the Peer functions that the underlying allocator does not have out of this library's symbol
// table: a program that looks whether it runs on jemalloc asks for them. Once, at start.
void hide_missing_peers(const Next& next);

}  // namespace memo
