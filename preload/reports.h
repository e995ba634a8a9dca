// What is written about the process: statistics and plans while it serves, by threads that the
// keeper starts, and again at its end, with the trace and the lines on stderr. Cold.
#pragma once

#include <cstdint>

#include "src/base/guard.h"
#include "src/io/export.h"

namespace memo {

// Notes the time from which on a file counts as written while this process ran. Once.
void note_start_of_reports();

// The state of the process now. Any thread.
void take(Snapshot& now);

// True if statistics have changed since they were written, some seconds ago, or plans since they
// were saved. `now` in nanoseconds. The keeper's.
bool reports_are_due(std::uint64_t now);
// Writes those files. One thread at a time.
void write_due_reports(const RecursionGuard& guard);

// A lane has begun to serve: writes the statistics, unless the keeper will.
void serving_began(const RecursionGuard& guard);

// The last reports, of a process that is a reporter (preload/reporter.h). Once.
void report();
// In a forked child, which will write its own.
void forget_reports();

}  // namespace memo
