// Which process reports: the one that was started, and no child of it. Cold.
#pragma once

namespace memo {

// The calling process is the one, if any report is asked for. Once, when the options are known.
void become_reporter();

// False in a child without exec of its own, which stays silent: after fork, however it was called,
// and after vfork, where the child runs in its parent's memory until it execs or exits. In a name
// space of its own (a container's process 1, and a child of it in another) such a child may have
// its parent's number.
bool is_reporter();

}  // namespace memo
