// The page of statistics of MEMOMALLOC_STATUS (src/io/status_page.h): made once the process makes
// large allocations, a forked child's once it serves; written every second by the background
// thread, and where a lane changes its phase; gone at the process' end. What others ask for by its
// word is done within two seconds. Cold.
#pragma once

#include "src/base/guard.h"

namespace memo {

// Notes where the user's runtime folder is. Once, before there is a second thread: later the
// environment may be changed meanwhile.
void note_status_folder();

// The calling thread has come by a lane, or leaves it: the page has its number. Any thread.
void note_lane_thread();
void leave_lane_thread();

// The page is asked for and not there; if it could not be made, not each time. A question a second.
bool lacks_status_page();
// Makes the page; says on stderr why not, once. Opens and closes a file.
void open_status_page(const RecursionGuard& guard);

// Writes the page again, if there is one. Any thread, with 4 KiB of stack; does nothing while
// another is at it.
void write_status_page();
// The same, and gives memory back first where that was asked for; leaves a page that was removed.
// The background thread's.
void keep_status_page();

// The process ends: takes the page away.
void close_status_page();

}  // namespace memo
