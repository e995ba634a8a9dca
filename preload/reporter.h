// Which processes report: the one that was started, and each forked child that does work of its
// own. Cold.
#pragma once

namespace memo {

// The calling process is one, if any report is asked for; whether it is. Once, when the options are
// known.
bool become_reporter();

// True if the calling process may write reports: the one that was started, and a forked child that
// has made large allocations, which a child that is about to exec has not. False after vfork, where
// the child runs in its parent's memory until it execs or exits, in a child that was made without
// fork's handlers and has not been noticed, and where no report is asked for. In a name space of
// its own (a container's process 1, and a child of it in another) a child of vfork may have its
// parent's number.
bool is_reporter();

// In a forked child: it is a process of its own, and says in each message which.
void name_forked_reporter();

// Large allocations of this process, of all threads.
unsigned long long large_calls();

// Says on stderr that `what` could not be written to `path`, for errno's reason, and that
// MEMOMALLOC_`variable` names another place.
void complain(const char* what, const char* path, const char* variable);

}  // namespace memo
