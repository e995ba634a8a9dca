// The C library's names that programs may define as well: this library's own calls do not come to
// the program's.
#pragma once

namespace memo {

// Looks up what is more than a system call, once, before there is a second thread.
void find_system_names();

}  // namespace memo
