// Work of a thread of the library's own that opens files. Hot: no allocation, errno kept.
//
// A second task of the kernel does the work, with the thread's thread-local storage, below its
// frames on its stack, and with a table of descriptors of its own (descriptors.h). The thread
// itself waits, and keeps the process' table: glibc runs exit() on the thread that ends last, and
// what runs there must find the program's files.
#pragma once

#include <atomic>
#include <cstdint>

namespace memo::os {

class Apart {
 public:
  using Work = void (*)(void*);

  // Runs work(argument) apart, and comes back when it is done. Where the kernel refuses the task,
  // it is done in place, with the process' descriptors. For threads with kStackGap of stack to
  // spare in which all signals are blocked.
  void run(Work work, void* argument);
  // Called by what is run: function(argument) in the thread itself, with the process' descriptors;
  // comes back when it is done.
  void step_back(Work function, void* argument);

  // Between the waiting thread's frames and the task's: glibc runs a handler of its own on the
  // thread where another changes its user (setuid).
  static constexpr std::uint64_t kStackGap = 64U << 10U;

 private:
  static void begin(void* self);
  long start();

  Work work_ = nullptr;
  void* argument_ = nullptr;
  // What the thread waits for: kRunning until the task is gone, for which the kernel writes 0, or
  // calls back.
  static constexpr std::uint32_t kGone = 0;
  static constexpr std::uint32_t kRunning = 1;
  static constexpr std::uint32_t kCallsBack = 2;
  std::atomic<std::uint32_t> state_{kGone};
  Work function_ = nullptr;  // what is called back
  void* its_argument_ = nullptr;
  bool apart_ = false;
};

}  // namespace memo::os
