// The background thread: it looks every second whether a lane has left its loop, and then gives its
// memory back, and what the underlying allocator keeps; and that starts others: to search for lower
// plans, and to write the reports that are due. Cold. It exists while much memory may have to be
// given back, and where reports are asked for as long as the process serves.
#pragma once

#include "src/base/guard.h"

namespace memo {

// Once, before start_background_thread().
void prepare_background_thread();

// True if the process has never had another thread, or its parent had none when it was forked.
bool alone();

// Starts the background thread, unless it runs, or little is kept for a program that has no thread
// yet. Without it (the system refuses a thread, or a thread is not to be asked for, since the
// program has confined itself) memory comes back only on request; later calls try again, now and
// then.
void start_background_thread(const RecursionGuard&);

}  // namespace memo
