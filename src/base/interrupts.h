// Keeps handlers of signals away from the cold parts. Cold.
//
// Planning, reports and the next allocator's trim take locks of the C library, which the program's
// own large calls never take: a handler that forks or allocates there would wait for the frame that
// it has interrupted. One that jumps away would leave them half done.
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
  bool changed_ = false;
};

}  // namespace memo
