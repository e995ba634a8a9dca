// Threads of the library's own, which nobody waits for. Cold.
//
// Each keeps the program's table of descriptors, and does what opens files apart, since it may be
// the one that runs exit() (src/base/own_thread.h). They end at once where the last thread of the
// program's does.
#pragma once

#include "preload/state.h"
#include "src/base/guard.h"
#include "src/base/os.h"
#include "src/base/tuning.h"
#include "src/base/units.h"

namespace memo {

// Starts body(argument) in a thread of its own (os::start_own_thread). False if the system refuses
// it. The caller has asked os::confined() before: there a new thread could be the program's end.
bool start_thread(void (*body)(void*), void* argument, const RecursionGuard&);

// The calling thread is the library's: what start_thread() starts says so by itself, and then does
// one thing apart (os::Apart), which says so first of all.
void note_own_task();

// A thread of the library's own sleeps, or until there is something to look at: false where the
// system refuses it.
bool sleep_own_thread(Nanos time);

// Milliseconds that the end of the process waits for what threads of the library's own are just
// doing.
inline int last_moments() {
  return static_cast<int>(tuning::kForkPatience / os::kMillisecond);
}

// Whether none but the library's own threads are left; then they are to end. Opens files: for what
// is run apart.
bool program_is_gone();

// By a thread that ends: where it is the program's last one, the library's own end before.
void end_own_threads_with_last();

// Begins what a thread of its own does, one at a time and apart, unless it is being done, or no
// thread may be started. Any thread.
void start_task(state::Task& task, void (*work)(const RecursionGuard&), const RecursionGuard&);

}  // namespace memo
