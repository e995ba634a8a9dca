// Threads of the library's own, which nobody waits for. Cold.
#pragma once

#include <atomic>

#include "src/base/guard.h"

namespace memo {

// Starts a thread with the stack of a planner, in which all signals are blocked: the program's handlers never run on it.
// It begins by leave_descriptors(). False if the system refuses it, or the program has taken system calls from itself, where a new thread could be its end.
bool start_thread(void* (*body)(void*), void* argument);

// First in each thread of the library's own: what it opens, for a moment or longer, takes no number that the program
// expects next, and is in no child that is forked meanwhile.
void leave_descriptors();

// Work that a thread of its own does each time, one at a time.
class BackgroundTask {
 public:
  constexpr explicit BackgroundTask(void (*work)(const RecursionGuard&)) : work_(work) {}

  // Begins, unless it is being done, or no thread may be started. Any thread.
  void start();
  [[nodiscard]] bool runs() const { return running_; }
  // In a forked child, where its thread does not exist.
  void forget() { running_ = false; }

 private:
  static void* run(void* self);

  void (*work_)(const RecursionGuard&);
  std::atomic<bool> running_{false};
};

}  // namespace memo
