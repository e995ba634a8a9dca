// The signature of an allocation: its call stack, walked by the unwind tables and hashed by xxHash.
// Hot.
#pragma once

#include <cstdint>

#include "src/trace/call_stack.h"

namespace memo {

// Makes signatures ready. Once, before the first one, and not from inside malloc, where the dynamic
// linker's locks may be held. With `log_sites` the stack behind each signature is remembered, for a
// trace's reader (site_log.h).
void load_unwinder(bool log_sites = false);

// Asks the thread library for the calling thread's bounds. May allocate: hold a RecursionGuard.
StackBounds find_stack_bounds();

// Hash of the innermost return addresses of the caller as module and offset, so that it is the same
// in the next process; 0 where the stack has too little room, is another one, or cannot be
// unwound. Before glibc 2.35 it takes the dynamic linker's lock, so no lock of ours may be held.
// Source: MemoMalloc thesis, 3.1 (lightweight stack tracing).
std::uint64_t stack_signature(const StackBounds& stack);

}  // namespace memo
