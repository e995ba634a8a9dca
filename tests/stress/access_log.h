// What threads write, read and lock in code that is compiled for the thread sanitizer: access_log.cc
// stands in for the sanitizer's run time, and does nothing but note it.
#pragma once

#include <cstdint>

namespace accesses {

inline constexpr unsigned kMaxThreads = 64;

// The calling thread's accesses are noted as those of thread `number` (below kMaxThreads), until it
// stops; by cache lines, in a table that is the same for all threads.
void start(unsigned number);
void stop();
// Nothing was noted; before the first start(). No thread may be noting.
void forget();
// What lies in [start, start + bytes) is not noted.
void leave_out(std::uint64_t start, std::uint64_t bytes);

inline constexpr std::uint64_t kLine = 64;  // bytes

// A cache line that several threads use, of whom at least one writes it.
struct SharedLine {
  std::uint64_t address = 0;
  std::uint64_t writers = 0;  // a bit for each thread
  std::uint64_t readers = 0;
  const void* code[2] = {};  // that wrote it, and that of another thread
};
struct Noted {
  std::uint64_t lines = 0;   // that were written
  std::uint64_t writes = 0;  // all of them
};
// visit(line) for each; what was noted in all. No thread may be noting.
Noted visit_shared(void (*visit)(const SharedLine& line));

// The locks in [start, start + bytes) are the calling thread's own, which it need not share.
void own_locks(const void* start, std::uint64_t bytes);

// What the calling thread has done with the library's locks so far.
struct Locking {
  std::uint64_t own = 0;            // times that it took one of its own,
  std::uint64_t taken = 0;          // and another one
  std::uint64_t missed = 0;         // tries that found one held
  std::uint64_t slept = 0;          // times that it announced that it would sleep
  std::uint64_t accesses = 0;       // to memory while it held one that is not its own
  std::uint64_t most_accesses = 0;  // of these from taking one to having none
  const void* code = nullptr;       // that took such a one last
};
Locking& my_locking();

}  // namespace accesses
