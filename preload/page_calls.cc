// What a program does to the pages of its blocks, by the C library's functions, ends with their
// free: blocks of ours that such a call touches are noted, and come in new pages. Cold but for its
// place: no memory of its own, any thread, also in a signal handler. A call's answer is the C
// library's.
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <cstdint>

#include "preload/pass_on.h"
#include "preload/process.h"
#include "preload/shim.h"
#include "src/base/bits.h"
#include "src/base/os.h"

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18  // Linux 4.14
#endif

namespace memo::shim {
namespace {

constexpr int kGuardInstall = 102;               // MADV_GUARD_INSTALL, Linux 6.13
constexpr long kProcessMadvise = 440;            // its system call, Linux 5.10
constexpr std::uint32_t kRegister = 0xC020AA00;  // UFFDIO_REGISTER
constexpr int kUsual = PROT_READ | PROT_WRITE;   // what a block has

void note(const void* start, std::size_t bytes) {
  g_process.engine.note_altered(start, bytes);
}

os::Reserved part_of_ours(const void* start, std::size_t bytes) {
  return g_process.engine.lanes.region.part_of(start, bytes);
}

// What the program has moved away from ours is reserved again. Where something else came there, the
// blocks are not touched any more.
void close_hole(void* start, std::size_t bytes) {
  const os::Reserved ours = part_of_ours(start, bytes);
  auto* const first = reinterpret_cast<void*>(ours.start);
  if (ours.bytes != 0 && !os::close_hole(first, ours.bytes)) {
    g_process.engine.note_lost(first, ours.bytes);
  }
}

// Advice that stays with the pages, and is not undone by writing or by free.
void note_advice(const void* start, std::size_t bytes, int advice) {
  if (advice == MADV_DONTFORK || advice == MADV_WIPEONFORK || advice == MADV_DONTDUMP ||
      advice == MADV_MERGEABLE || advice == kGuardInstall) {
    note(start, bytes);
  } else if (advice == MADV_HUGEPAGE) {
    g_process.engine.note_huge(start, bytes);
  }
}

// Copies what the kernel does not move, since it is several mappings, as where some of it comes in
// huge pages: to `place`, or anywhere. Else MAP_FAILED, as for the refusal that has led here. The
// kernel may have unmapped `place` already, so that nothing else may be mapped in between.
void* copy_away(void* start, std::size_t bytes, std::size_t to, void* place) {
  const int refusal = errno;
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | (place != nullptr ? MAP_FIXED : 0);
  void* const now = pass_on(&Next::mmap, SYS_mmap, place, to, kUsual, flags, -1, 0L);
  if (now != MAP_FAILED) {
    const std::size_t copied = std::min(bytes, to);
    os::copy_written(start, now, copied, true);
    os::decommit(start, copied);
  }
  errno = now == MAP_FAILED ? refusal : errno;
  return now;
}

}  // namespace

int mprotect(void* start, std::size_t bytes, int access) {
  if (access != kUsual) {
    note(start, bytes);
  }
  return pass_on(&Next::mprotect, SYS_mprotect, start, bytes, access);
}

int pkey_mprotect(void* start, std::size_t bytes, int access, int key) {
  note(start, bytes);
  return pass_on(&Next::pkey_mprotect, SYS_pkey_mprotect, start, bytes, access, key);
}

void* mmap(void* start, std::size_t bytes, int access, int flags, int file, long at) {
  if ((flags & MAP_FIXED) != 0) {
    g_process.engine.note_replaced(start, bytes);
  }
  return pass_on(&Next::mmap, SYS_mmap, start, bytes, access, flags, file, at);
}

void* mmap64(void* start, std::size_t bytes, int access, int flags, int file, long at) {
  return shim::mmap(start, bytes, access, flags, file, at);
}

int madvise(void* start, std::size_t bytes, int advice) {
  note_advice(start, bytes, advice);
  return pass_on(&Next::madvise, SYS_madvise, start, bytes, advice);
}

// Of this process, from Linux 6.13 on, or of another: then blocks here get new pages for nothing.
ssize_t process_madvise(int process, const iovec* parts, std::size_t count, int advice,
                        unsigned flags) {
  const ssize_t answer =
      pass_on(&Next::process_madvise, kProcessMadvise, process, parts, count, advice, flags);
  for (std::size_t i = 0; answer > 0 && i < count; ++i) {
    note_advice(parts[i].iov_base, parts[i].iov_len, advice);
  }
  return answer;
}

// What is unmapped of ours stays reserved, so that nothing else of the process comes there. The
// kernel's refusals come before anything is done: that behind ours is asked for first.
int munmap(void* start, std::size_t bytes) {
  const auto from = reinterpret_cast<std::uint64_t>(start);
  const std::uint64_t to = from + round_up(bytes, os::page_size());
  const os::Reserved ours = part_of_ours(start, to - from);
  const auto unmap = [](std::uint64_t first, std::uint64_t end) {
    return pass_on(&Next::munmap, SYS_munmap, reinterpret_cast<void*>(first), end - first);
  };
  if (ours.bytes == 0 || from % os::page_size() != 0 || to <= from) {
    return pass_on(&Next::munmap, SYS_munmap, start, bytes);
  }
  const std::uint64_t end = ours.start + ours.bytes;
  if ((end < to && unmap(end, to) != 0) || (from < ours.start && unmap(from, ours.start) != 0)) {
    return -1;
  }
  auto* const first = reinterpret_cast<void*>(ours.start);
  g_process.engine.note_taken_out(first, ours.bytes);
  if (!os::decommit(first, ours.bytes)) {
    errno = ENOMEM;
    return -1;
  }
  return 0;
}

// What it moves away is noted before, since another thread may map something in its place at once.
void* mremap(void* start, std::size_t bytes, std::size_t to, int flags, void* place) {
  const bool fixed = (flags & MREMAP_FIXED) != 0;
  const bool from_ours = part_of_ours(start, bytes).bytes != 0;
  const bool to_ours = fixed && part_of_ours(place, to).bytes != 0;
  const bool plain = from_ours && g_process.engine.is_unaltered(start, bytes);
  if (from_ours) {
    g_process.engine.note_taken_out(start, bytes);
  }
  if (to_ours) {
    g_process.engine.note_replaced(place, to);
  }
  void* now = pass_on(&Next::mremap, SYS_mremap, start, bytes, to, flags, place);
  bytes = round_up(bytes, os::page_size());
  to = round_up(to, os::page_size());
  const auto close_cut = [&] { close_hole(static_cast<char*>(start) + to, sub_sat(bytes, to)); };
  if (now == MAP_FAILED && errno == EFAULT && plain && !to_ours &&
      (flags & (MREMAP_MAYMOVE | MREMAP_DONTUNMAP)) == MREMAP_MAYMOVE) {
    now = copy_away(start, bytes, to, fixed ? place : nullptr);
    if (now != MAP_FAILED) {
      close_cut();
      return now;
    }
  }
  if (now == MAP_FAILED) {
    // But for wrong arguments a refusal may come when something is unmapped already.
    if (fixed && errno != EINVAL) {
      close_hole(place, to);
      close_cut();
    }
  } else if (now == start) {
    close_cut();
  } else if ((flags & MREMAP_DONTUNMAP) == 0) {
    close_hole(start, bytes);
  }
  return now;
}

// The segment is as long as the kernel says; where it is taken off again there is a hole.
void* shmat(int segment, const void* start, int flags) {
  shmid_ds about;
  if ((flags & SHM_REMAP) != 0 && g_process.engine.lanes.opened() &&
      shmctl(segment, IPC_STAT, &about) == 0) {
    const std::uint64_t first = round_down(reinterpret_cast<std::uint64_t>(start), os::page_size());
    g_process.engine.note_lost(reinterpret_cast<void*>(first),
                               round_up(about.shm_segsz, os::page_size()));
  }
  return pass_on(&Next::shmat, SYS_shmat, segment, start, flags);
}

int mlock(const void* start, std::size_t bytes) {
  note(start, bytes);
  return pass_on(&Next::mlock, SYS_mlock, start, bytes);
}

int mlock2(const void* start, std::size_t bytes, unsigned how) {
  note(start, bytes);
  return pass_on(&Next::mlock2, SYS_mlock2, start, bytes, how);
}

// The pipe has the pages themselves, which a later block must not write while they are read.
ssize_t vmsplice(int pipe, const iovec* parts, std::size_t count, unsigned flags) {
  const ssize_t answer = pass_on(&Next::vmsplice, SYS_vmsplice, pipe, parts, count, flags);
  for (std::size_t i = 0; answer > 0 && i < count; ++i) {
    note(parts[i].iov_base, parts[i].iov_len);
  }
  return answer;
}

int ioctl(int file, unsigned long request, void* argument) {
  const int answer = pass_on(&Next::ioctl, SYS_ioctl, file, request, argument);
  // The kernel reads 32 bits, and a caller that passes an int extends its sign.
  if (static_cast<std::uint32_t>(request) == kRegister && answer == 0) {
    const auto* const range = static_cast<const std::uint64_t*>(argument);
    note(reinterpret_cast<const void*>(range[0]), range[1]);
  }
  return answer;
}

}  // namespace memo::shim
