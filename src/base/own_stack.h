// Cold work inside malloc on a stack of its own: the caller's may be small, and nobody can tell
// where it ends. A coroutine's can lie inside the thread's own. Hot: the stack comes from the
// system, and goes back.
#pragma once

#include <type_traits>

namespace memo::os {

// Runs work(argument) on a stack of tuning::kOwnStack bytes, with the calling thread's storage, and
// comes back when it is done. It must not throw, nor jump out. False, and nothing has run, where
// the system refuses the memory. The caller keeps signals away (NoInterrupts): a program's handler
// may look where its stack is.
bool run_on_own_stack(void (*work)(void*), void* argument);

// The same for a function object.
template <typename Function>
bool run_on_own_stack(Function&& function) {
  return run_on_own_stack(
      [](void* argument) { (*static_cast<std::remove_reference_t<Function>*>(argument))(); },
      &function);
}

}  // namespace memo::os
