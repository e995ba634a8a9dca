// A program's mlockall(), without the addresses that are reserved and no memory. Cold but for its
// place: no memory of its own, any thread, also in a signal handler.
#pragma once

#include <sys/mman.h>
#include <cstdint>
#include <span>

namespace memo::os {

// Addresses that os::reserve() has reserved: what has access in [start, start + bytes) is memory
// all the same.
struct Reserved {
  std::uint64_t start = 0;
  std::uint64_t bytes = 0;
};

// Does and answers what the C library's mlockall does, `call`, but leaves out what has no access in
// `reserved`. Linux counts all addresses of a process against RLIMIT_MEMLOCK (mm/mlock.c, 6.18), so
// that terabytes without memory would have the call refused without CAP_IPC_LOCK; and
// before 5.18 it unlocks page by page, reserved ones too. Here what has access counts. Where the
// process cannot see its mappings or may not lock them one by one, `call` is asked for all.
int lock_all(int flags, std::span<const Reserved> reserved, decltype(&::mlockall) call);

}  // namespace memo::os
