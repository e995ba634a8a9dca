// Huge pages under what a served program reads in each iteration: weights, and the small blocks of the next allocator where
// that takes them from the heap (brk), as glibc's does. Cold; no thread of the program's does anything for it.
#pragma once

#include "src/base/guard.h"

namespace memo {

// True when it is worth looking again: some seconds after serving has begun, then at twice the time, and so on, and
// once much more is alive. Called each second by the background thread.
bool gathering_is_due();

// One look at all of it, which may take seconds. By a thread of the library's own.
void gather_huge_pages(const RecursionGuard&);

// In a forked child.
void forget_gathering();

}  // namespace memo
