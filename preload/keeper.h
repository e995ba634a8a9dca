// The keeper: a thread that looks every second whether a lane has left its loop, and then gives its
// memory back; and that starts another to go on looking for lower plans where a program's own
// thread had no time to. Cold. It exists only in processes that have much memory to give back.
#pragma once

#include "src/base/guard.h"

namespace memo {

// Starts the keeper, unless it runs. Without it (the system refuses a thread, or a thread is not to
// be asked for, since the program has confined itself) memory comes back only on request; later
// calls try again, now and then.
void start_keeper(const RecursionGuard&);

// In a forked child, where the keeper does not exist.
void forget_keeper();

}  // namespace memo
