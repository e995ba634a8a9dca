// The plan file of MEMOMALLOC_PLAN_FILE, and how a file that cannot be written is told of. Cold.
#pragma once

#include "src/base/guard.h"

namespace memo {

// Gives the engine the plans of the file, if it is set, there and trusted; says on stderr why not.
// After the engine opened.
void load_plan_file(const RecursionGuard& guard);

// Writes all plans to the file, if it is set and there are any; a file that is left alone stays.
void save_plan_file(const RecursionGuard& guard);

// Says on stderr that `what` could not be written to `path`, for errno's reason, and that
// MEMOMALLOC_`variable` names another place.
void complain(const char* what, const char* path, const char* variable);

}  // namespace memo
