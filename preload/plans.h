// The plan file of MEMOMALLOC_PLAN_FILE, and how a file that cannot be written is told of. Cold.
#pragma once

#include "src/base/guard.h"

namespace memo {

// Gives the engine the plans of the file, if it is set, there and trusted; says on stderr why not.
// After the engine opened.
void load_plan_file(const RecursionGuard& guard);

// True if a file is set, and there are other plans than were last read from it or saved: one was
// made or lowered, or has turned out wrong. Any thread, in short.
bool plans_changed();

// In a forked child: where its file is its own, its parent's plans are not in it yet.
void fork_plans();

// Then writes all plans to the file, with those that other processes have put there meanwhile. A
// file that is left alone stays. Says once on stderr if it cannot. One thread at a time.
void save_plan_file(const RecursionGuard& guard);

// Says on stderr that `what` could not be written to `path`, for errno's reason, and that
// MEMOMALLOC_`variable` names another place.
void complain(const char* what, const char* path, const char* variable);

}  // namespace memo
