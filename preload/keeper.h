// The keeper: a thread that looks every second whether a lane has left its loop, and then gives its
// memory back; and that starts another to go on looking for lower plans where a program's own
// thread had no time to. Cold. It exists only in processes that have much memory to give back.
#pragma once

#include "src/base/guard.h"

namespace memo {

// Starts the keeper, unless it runs. All its signals are blocked, so that the program's handlers
// never run on it. Without it (the system refuses a thread) memory comes back only on request.
void start_keeper(const RecursionGuard&);

// In a forked child, where the keeper does not exist.
void forget_keeper();

}  // namespace memo
