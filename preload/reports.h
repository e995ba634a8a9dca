// What is written about the process: statistics and plans while it serves, by threads that the
// background thread starts, and again at its end, with the trace and the lines on stderr. Cold.
#pragma once

#include "src/base/guard.h"
#include "src/base/units.h"

namespace memo {

// Notes the time from which on a file counts as written while this process ran. Once.
void note_start_of_reports();

// Begins to write, in a thread of its own, statistics that have changed since they were written,
// some seconds ago, and plans since they were saved. The background thread's.
void begin_due_reports(Nanos now, const RecursionGuard&);

// True if a lane serves.
bool anyone_serves();

// No background thread runs that would: writes the file of statistics, if a lane serves.
void report_serving(const RecursionGuard& guard);

// The last reports, of a process that is a reporter (preload/reporter.h). Once.
void report();

}  // namespace memo
