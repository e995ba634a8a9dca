// Threads of the library's own, which nobody waits for. Cold.
#pragma once

#include <atomic>
#include <cstdint>

#include "src/base/guard.h"

namespace memo {

// Starts a thread with the stack of a planner, in which all signals are blocked: the program's handlers never run on it.
// False if the system refuses it, or the program has taken system calls from itself, where a new thread could be its end.
bool start_thread(void* (*body)(void*), void* argument);

// Work that a thread of its own does each time, one at a time: what it opens is then in no other thread's table of
// descriptors, and in no child that is forked meanwhile.
class BackgroundTask {
 public:
  // kShared: it opens nothing, and takes long; the program's files are not to be kept open by it.
  enum class Descriptors : std::uint8_t { kOwn, kShared };
  constexpr explicit BackgroundTask(void (*work)(const RecursionGuard&),
                                    Descriptors descriptors = Descriptors::kOwn)
      : work_(work), descriptors_(descriptors) {}

  // Begins, unless it is being done, or no thread may be started. Any thread.
  void start();
  [[nodiscard]] bool runs() const { return running_; }
  // In a forked child, where its thread does not exist.
  void forget() { running_ = false; }

 private:
  static void* run(void* self);

  void (*work_)(const RecursionGuard&);
  Descriptors descriptors_;
  std::atomic<bool> running_{false};
};

}  // namespace memo
