// The background thread: it looks every second whether a lane has left its loop, and then gives its
// memory back, and what the underlying allocator keeps; and that starts others: to go on looking for lower
// plans where a program's own thread had no time to, to write the reports that are due, to bring memory to its nodes, and
// into huge pages. Cold. It exists where much memory may have to be given back, until it has
// been, and for as long as the process serves where reports are asked for, or there are several nodes.
#pragma once

#include "src/base/guard.h"

namespace memo {

// Once, before start_background_thread().
void prepare_background_thread();

// True if the process has never had another thread, or its parent had none when it was forked.
bool alone();

// Starts the background thread, unless it runs, or little is kept for a program that has no thread yet. Without
// it (the system refuses a thread, or a thread is not to be asked for, since the program has confined
// itself) memory comes back only on request; later calls try again, now and then.
void start_background_thread(const RecursionGuard&);

bool background_thread_runs();

// In a forked child, where the background thread does not exist.
void forget_background_thread();

}  // namespace memo
