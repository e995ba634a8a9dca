// The signature of an allocation: its call stack, unwound by libunwind and hashed by xxHash. Hot.
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

// Loads libunwind, if the system has it; without it every signature is 0. Once, before the first
// signature, and not from inside malloc, where the dynamic linker's locks may be held. With
// `log_sites` the stack behind each signature is remembered, for a trace's reader (site_log.h).
//
// It is loaded with its symbols kept local: were it linked, its _Unwind_* functions would take the
// place of libgcc's in every C++ exception of the process.
void load_unwinder(bool log_sites = false);

// Asks the thread library for the calling thread's bounds. May allocate: hold a RecursionGuard.
StackBounds find_stack_bounds();

// Hash of the innermost return addresses of the caller as module and offset, so that it is the same
// in the next process; 0 where the stack has too little room to unwind (libunwind takes up to 8.6
// KiB of it) or cannot be unwound. Takes the dynamic linker's lock, so no lock of ours may be held.
// Source: MemoMalloc thesis, 3.1 (lightweight stack tracing).
std::uint64_t stack_signature(const StackBounds& stack);

}  // namespace memo
