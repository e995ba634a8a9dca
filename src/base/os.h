// The operating system as this library needs it: the only place with system calls for memory and
// time. Hot: no allocation, and every function leaves errno as it found it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <ctime>

#include "src/base/no_cancellation.h"
#include "src/base/units.h"

namespace memo::os {

constexpr std::uint64_t kHugePage = 2ULL << 20;  // bytes; where pages have 4 KiB

// Notes what later calls must not ask for: physical memory, and the filters of system calls that
// the process was started under. Once, while the program has not yet taken anything from itself.
void start();

// True where the calling thread may have lost system calls since start(): a filter (seccomp) was
// added then, or the system does not tell any more. Such a thread calls only what malloc needs:
// mmap, munmap, mprotect, madvise and futex. Opens, reads and closes a file until one is found. A
// thread that had no new filter is trusted for kIdle, unless one is expected. Any thread.
[[nodiscard]] bool confined();
// Of the monotonic clock, a few milliseconds behind and cheaper.
Nanos coarse_nanoseconds();
// The program is about to add a filter, or may be: PR_SET_NO_NEW_PRIVS comes just before those that
// need no privilege. No thread is trusted then for kFilterTime, so that a process that adds none
// does not open a file at each ask for good.
void expect_filter(Nanos now = coarse_nanoseconds());
// The process was started under a filter that may end it for a call that few programs need. Lists
// of what is allowed, such as systemd's @system-service, leave out mincore, close_range, and
// pidfd_getfd. Not for a confined thread.
[[nodiscard]] bool may_end_by_filter();

std::uint64_t page_size();        // bytes; read from the system once
std::uint64_t physical_memory();  // bytes; read from the system once
// That the process may run on; where the system does not tell, as many as there are lanes. Read
// once, at the start: later a thread pool may have tied its threads to one each.
std::uint32_t processors();
inline constexpr Nanos kMillisecond{1'000'000};
inline constexpr Nanos kSecond = 1000 * kMillisecond;
inline Nanos nanoseconds_of(const timespec& time) {
  return static_cast<std::uint64_t>(time.tv_sec) * kSecond +
         Nanos{static_cast<std::uint64_t>(time.tv_nsec)};
}
Nanos nanoseconds();  // monotonic clock
// Of all processors, that the process has used. Always 0 for a confined thread.
Nanos processor_nanoseconds();

// Reserves address space without memory behind it: neither readable nor counted as committed, nor
// locked in a program that locks all it will have. A page before it and one behind stay so for
// ever: a write past a neighbour's end is stopped there. Answers nullptr where the system refuses.
// `alignment` is a power of two. `apart`: bytes on either side that are left to what is mapped
// later, where there are as many.
void* reserve(std::uint64_t bytes, std::uint64_t alignment, std::uint64_t apart = 0);
// What a program that locks all it will have asks for: memory at once, or a lock on each page once
// that is touched.
enum class Lock : std::uint8_t { kNo, kAtOnce, kOnFault };
// Makes [start, start + bytes) of a reservation readable and writable, zero at first, and locks it
// as asked. Page multiples.
bool commit(void* start, std::uint64_t bytes, Lock lock = Lock::kNo);
// The opposite: reserved again, its contents gone, and counted neither as data nor as committed.
// False where the system refuses; what becomes of the range is not known then, and it is only good
// for commit(). Page multiples.
bool decommit(void* start, std::uint64_t bytes);
// Addresses that nobody has are reserved again; false where somebody has some of them, and before
// Linux 4.17. Page multiples.
bool close_hole(void* start, std::uint64_t bytes);
// Whether the program has locked its memory (mlockall): all that it will take, and the reservation
// to which the page at `reserved`, not committed, belongs.
struct Locking {
  Lock future = Lock::kNo;
  bool reserved = false;
};
Locking locking(const void* reserved);
// Takes a range out of what is locked, such as a reservation: it counts as locked memory otherwise.
void unlock(void* start, std::uint64_t bytes);
// Gives the memory behind the whole pages inside [start, start + bytes) back; all of it reads as
// zero afterwards. False where the system refuses, as it does for pages that the program has
// locked; then the contents stay.
bool purge(void* start, std::uint64_t bytes);
// Lets the system take the memory behind the whole pages inside [start, start + bytes) when it
// needs some (MADV_FREE): until they are written the next time, each holds what it held or zeros.
// A refusal changes nothing.
void free_lazily(void* start, std::uint64_t bytes);
// Copies [from, from + bytes) to `to`, elsewhere, and purges each huge page's worth of it when that
// is copied: no more than that is there twice, and what has no memory gets none. True if all of it
// was purged; else, as where pages are locked, some of it is as before.
bool carry(void* from, void* to, std::uint64_t bytes);
// The whole pages inside [start, start + bytes) are new ones, as commit() makes them, whatever they
// were; those at both ends can be written, and keep what they hold. False where the system refuses;
// what becomes of them is not known then.
bool renew(void* start, std::uint64_t bytes);
// Asks for huge pages; populates with memory in one call. Page multiples. False where not
// supported.
bool advise_huge(void* start, std::uint64_t bytes, bool huge);
bool populate(void* start, std::uint64_t bytes);
// Has the kernel join the parts of a mapping again that a program's advice splits: it does so only
// where the mapping had a page before, and no huge page lies across a border. For [start, start +
// bytes) that is nobody's yet; leaves no memory. Page multiples.
void keep_whole(void* start, std::uint64_t bytes);
// Of the 2 MiB at `start` each page of 4 KiB has memory that no other process has as well: not
// shared with a forked child, nor in swap, nor the zeros that the kernel lends to who only reads.
// False where the system does not tell.
bool is_own(const void* start);
// The same of those pages that have memory.
bool none_is_lent(const void* start);
// Puts [start, start + bytes) into huge pages, whether it is in use or not. It stays as it is where
// the system has none. Multiples of 2 MiB.
void collapse(void* start, std::uint64_t bytes = kHugePage);
// The system knows how, and its owner has not switched huge pages off. Opens, reads and closes a
// file.
bool can_collapse();
// The thread may have memory on several NUMA nodes. Asked once: opens, reads and closes a file;
// false where the system does not tell.
bool several_nodes();
// On which memory nodes memory is to lie; kOff: as the process is set.
enum class Numa : std::uint8_t { kLocal, kInterleave, kOff };
// Says on which memory nodes [start, start + bytes) is to lie from now on, whatever holds for the
// thread or the process. Page multiples. A refusal changes nothing, and a confined thread does not
// ask.
void place_on_nodes(void* start, std::uint64_t bytes, Numa where);
// Makes [start, start + bytes) read as zeros, where pages of zeros are not written: whoever has
// only read there has the page of zeros that the kernel lends, and would get memory. Multiples of 4
// KiB.
void clear_pages(void* start, std::uint64_t bytes);
// Makes [start, start + bytes) read as zeros without any memory for what has none: where purge() is
// refused. What has no page is not read, where the system knows. Multiples of 4 KiB.
void clear_written(void* start, std::uint64_t bytes);
// Of the whole pages inside [start, start + bytes) the bytes that are known to have memory
// (src/base/resident.h): none where the system does not tell or the thread is confined.
std::uint64_t resident_bytes(const void* start, std::uint64_t bytes);
// Less than a half of [start, start + bytes) is known to have memory.
bool is_bare(const void* start, std::uint64_t bytes);
// The pages of [start, start + bytes) are written, except for at most `but` bytes. A page counts as
// written if one of four cache lines in it is not all zeros. The kernel reads them, since the
// program may have made the memory unreadable. False for a confined thread.
bool is_written(const void* start, std::uint64_t bytes, std::uint64_t but);
// there[i] & 1: whether the page i of `count` from `start` on has memory, as mincore(2) tells.
// False where the system does not. Not for a confined thread.
bool tell_resident(const void* start, std::uint64_t count, unsigned char* there);
// Copies [from, from + bytes) to `to`, elsewhere, where `to` gets no memory for what has none at
// `from`, and reads as zeros there. `zeros`: it does so already.
void copy_written(const void* from, void* to, std::uint64_t bytes, bool zeros = false);

// Bytes of the process in memory; 0 where the system does not tell, or the thread is confined.
std::uint64_t process_bytes();

// Zeroed memory for our own records, between two pages that nobody can read or write; nullptr where
// the system refuses.
void* map(std::uint64_t bytes);

// From now on the calling thread leaves the processor to others, but for a share of one part in 70
// (SCHED_IDLE: a fifth of that): it may hold a lock of the underlying allocator, and must come to
// let it go. A real-time thread becomes an ordinary one, since nice means nothing there. Best
// effort: a sandbox may refuse it. There is no way back for ordinary users.
void yield_to_others();
// The calling thread sleeps; false where the system refuses it: a waiting loop would then go round
// without a pause.
bool rest(Nanos time = kMillisecond);

// Gives the pages of [start, start + bytes), the library's own, a name of at most 79 letters, as
// pmap and /proc/PID/smaps show it: [anon:memomalloc slab]. Best effort: kernels without names
// (before 5.17, or CONFIG_ANON_VMA_NAME) refuse it silently, and a confined thread does not ask.
void name_mapping(const void* start, std::uint64_t bytes, const char* name);

// Children forked from now on have zeros there, and no memory; or a copy, as before. False where
// the kernel does not know how (before Linux 4.14), or has done it in parts of the range only.
// Page multiples.
bool wipe_on_fork(void* start, std::uint64_t bytes);
bool copy_on_fork(void* start, std::uint64_t bytes);

// Gives back what reserve() or map() gave.
void unmap(void* start, std::uint64_t bytes);

// Whether the system counts for all processes what they may write, used or not: strict overcommit.
// A forked child counts from nought. Opens, reads and closes a file; for a confined thread the
// answer is false.
bool counts_commitments();
// The same, or RLIMIT_DATA does for this process.
bool data_limited();
// Bytes of address space that may still be taken under RLIMIT_AS; UINT64_MAX without a limit. A
// confined thread goes by what held at start(): 0 where there was a limit.
std::uint64_t address_space_left();

}  // namespace memo::os
