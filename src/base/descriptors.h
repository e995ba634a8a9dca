// The library's own threads and the program's file descriptors, standard error above all. Hot,
// since messages come from inside malloc: no allocation, errno kept, no place where a thread is
// cancelled.
#pragma once

#include <string_view>

namespace memo::os {

// From now on the calling thread has a table of file descriptors of its own, with nothing in it:
// what it opens takes no number of the program's and is in no child that another thread forks
// meanwhile, and it holds open nothing that the program has closed. The numbers of the standard
// streams lead nowhere. False where the system does not know how (before Linux 5.9), or may not
// allow it (may_end_by_filter()); then it shares the program's.
bool own_descriptors();

// What standard error is now is what remarks go to from now on, and what is no regular file: a
// daemon closes it, and a file of its own may get the number. Once, at load; until then they go to
// whatever has the number.
void note_stderr();

// Writes `text` to the process' standard error by one write(2); a thread with descriptors of its
// own borrows the program's for it. Not into a file that has taken its place, but for `last_words`.
// Best effort. The caller holds the signals of writing back.
void write_to_stderr(std::string_view text, bool last_words);

}  // namespace memo::os
