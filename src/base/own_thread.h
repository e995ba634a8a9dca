// Threads of the library's own. Cold; errno is kept.
//
// glibc runs exit() on the thread that ends last, and what runs there must find the program's
// files. So a thread of the library's own keeps the process' table of descriptors, and what opens
// files is done apart: by a second thread, which has a table of its own (descriptors.h) and ends
// before the first. Both are glibc's, since it changes the user of each thread that it knows.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>

#include "src/base/guard.h"

namespace memo::os {

// Starts body(argument) in a thread in which all signals are blocked but SIGSYS: of the program's
// handlers only that of its own filter runs on it. nullptr for `joined`: nobody joins it. False if
// the system refuses it.
bool start_own_thread(void* (*body)(void*), void* argument, pthread_t* joined,
                      const RecursionGuard& guard);

class Apart {
 public:
  using Work = void (*)(void*, const RecursionGuard&);

  // Runs work(argument) apart, and comes back when it is done. Where the system refuses the thread,
  // it is done in place, with the process' descriptors.
  void run(Work work, void* argument);
  // Called by what is run: function(argument) in the waiting thread, with the process' descriptors;
  // comes back when it is done.
  void step_back(Work function, void* argument);

 private:
  static void* begin(void* self);

  Work work_ = nullptr;
  void* argument_ = nullptr;
  // What the waiting thread is to do.
  enum State : std::uint32_t { kWait, kCall, kJoin };
  std::atomic<std::uint32_t> state_{kWait};
  Work function_ = nullptr;  // what is called back
  void* its_argument_ = nullptr;
  bool apart_ = false;
};

}  // namespace memo::os
