// Walks up a call stack by the unwind tables. Hot: no lock, no allocation, no system call, and
// every word of the stack is checked to lie within the thread's stack before it is read.
#pragma once

#include <cstdint>

namespace memo {

// The part of the address space that the calling thread's stack may use.
struct StackBounds {
  std::uint64_t low = 0;
  std::uint64_t high = 0;  // low == high: unknown, so nothing is unwound

  // Bytes between the calling frame and the stack's low end; 0 on another stack (a signal
  // handler's).
  [[nodiscard]] std::uint64_t room() const;
};

// Where a frame goes on when what it has called comes back, and its registers then.
struct FrameState {
  std::uint64_t pc = 0;
  std::uint64_t sp = 0;
  std::uint64_t fp = 0;
};

// Writes the return addresses from `innermost` on outwards, and each one's place (code_location.h),
// at most `most`; answers how many. Ends where the tables do: at the outermost frame, generated
// code, a signal handler's frame, or a register that points out of the stack. Looks modules up, see
// code_location() for the lock.
//
// Source: measured against libunwind 1.6.2 (unw_backtrace), _Unwind_Backtrace and libunwind with
// accessors of our own, see results/notes/0029-call-stacks.md.
int walk_stack(const StackBounds& stack, const FrameState& innermost, const void** frames,
               std::uint64_t* places, int most);

}  // namespace memo
