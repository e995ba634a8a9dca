// What is written about the process: statistics and plans while it serves, by threads that the
// keeper starts, and again at its end, with the trace and the lines on stderr. Cold.
#pragma once

#include <cstdint>

#include "src/base/guard.h"

namespace memo {

// Notes the time from which on a file counts as written while this process ran. Once.
void note_start_of_reports();

// True if statistics have changed since they were written, some seconds ago, or plans since they
// were saved. `now` in nanoseconds. The keeper's.
bool reports_are_due(std::uint64_t now);
// Writes those files. One thread at a time.
void write_due_reports(const RecursionGuard& guard);

// True if a lane serves.
bool anyone_serves();

// A lane has begun to serve, or has worked for long since this was called: writes the page of
// statistics and, where a lane serves and the keeper does not run, the file.
void serving_began(const RecursionGuard& guard);

// The last reports, of a process that is a reporter (preload/reporter.h). Once.
void report();
// In a forked child, which will write its own.
void forget_reports();

}  // namespace memo
