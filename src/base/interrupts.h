// Keeps signals away from the cold parts, and those of what is written from the program. Cold.
//
// Planning, reports and the underlying allocator's trim take locks of the C library, which the program's
// own large calls never take: a handler that forks or allocates there would wait for the frame that
// it has interrupted. One that jumps away would leave them half done. What the library writes may
// fail, but must not signal the program: by default such a signal is its end.
#pragma once

#include <csignal>

namespace memo {

// While one lives the calling thread gets no signal but those that its own instructions raise.
// A confined thread (os.h) is left as it is.
class NoInterrupts {
 public:
  NoInterrupts();
  ~NoInterrupts();
  NoInterrupts(const NoInterrupts&) = delete;
  NoInterrupts& operator=(const NoInterrupts&) = delete;

 private:
  sigset_t before_;
  bool changed_;
};

// As NoInterrupts, from one call to the other, which may come in the child that the thread has become. They nest.
void hold_signals();
void release_signals();

// While one lives, what the calling thread writes fails without a signal: a pipe that nobody reads
// (SIGPIPE), a file past the limit (SIGXFSZ). Such a signal that was pending before stays so. A
// confined thread (os.h) is left as it is: the mask of signals may be among what it has given up.
// Two system calls and confined()'s file, so for what is written at all. No allocation, errno kept.
class NoWriteSignals {
 public:
  NoWriteSignals();
  ~NoWriteSignals();
  NoWriteSignals(const NoWriteSignals&) = delete;
  NoWriteSignals& operator=(const NoWriteSignals&) = delete;

 private:
  sigset_t before_;
  sigset_t taken_;  // those that cannot have been pending before
  bool changed_ = false;
};

}  // namespace memo
