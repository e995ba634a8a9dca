// What the library keeps per thread, and the proof that it is inside itself. Hot.
//
// All thread-local state is one trivially destructible, initial-exec struct, so that reading it
// never calls into the dynamic linker, whose lock the caller may hold.
#pragma once

#include <cstdint>

#include "src/base/check.h"
#include "src/base/units.h"

namespace memo {

class Lane;

struct ThreadState {
  // The lane that follows this thread's stream, if it has one.
  Lane* lane = nullptr;
  std::uint16_t inside = 0;      // > 0: allocations of this thread are the library's own
  std::uint8_t holds = 0;        // hold_signals() without release_signals()
  bool left = false;             // the thread is ending: pass everything on
  std::uint8_t arena = 0;        // of the pool's arenas the one that the thread uses
  std::uint8_t arena_waits = 0;  // recent calls that had to wait for its lock, weighted
  std::uint32_t forks = 0;       // the locks taken for each fork() under way, see Forks::before()
  // When os::confined() answered no, by the coarse clock, as an odd number; 0: never; kFiltered: a
  // filter was found, and none ever goes.
  static constexpr std::uint32_t kFiltered = 2;
  std::uint32_t asked_at = 0;
  // Frame of the innermost dl_iterate_phdr that was called, see in_loader().
  std::uint64_t walk = 0;
  std::uint64_t held_signals = 0;  // the program's mask, as the kernel has it; see hold_signals()
  Nanos ask_at;  // there was no lane for the thread: when it asks again, by the coarse clock
};
static_assert(sizeof(ThreadState) <= 48);

[[gnu::visibility("hidden")]] extern constinit thread_local ThreadState t_state;

// True in a callback of dl_iterate_phdr, which runs under the dynamic linker's lock: further down
// the stack than the walk's frame. An exception may have ended the walk; then this is true for deep
// calls without need, until the next walk.
inline bool in_loader() {
  return reinterpret_cast<std::uint64_t>(__builtin_frame_address(0)) < t_state.walk;
}

// While one lives, every allocation of this thread goes to the underlying allocator. Passed to
// functions that allocate (the cold parts) as a proof that it is held.
class RecursionGuard {
 public:
  RecursionGuard() { ++t_state.inside; }
  ~RecursionGuard() {
    MEMO_DCHECK(t_state.inside != 0);
    --t_state.inside;
  }
  RecursionGuard(const RecursionGuard&) = delete;
  RecursionGuard& operator=(const RecursionGuard&) = delete;
};

}  // namespace memo
