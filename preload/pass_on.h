// A call of the program goes on to the C library's function. Hot; any thread, also in a signal
// handler.
#pragma once

#include <unistd.h>

#include "preload/process.h"

namespace memo {

// The next definition, once it is known; a call may come before, and from inside of the look-up:
// then the system call `number`.
template <typename Function, typename... Arguments>
auto pass_on(Function Next::* next, long number, Arguments... arguments) {
  using Result = decltype((g_process.next.*next)(arguments...));
  const bool known = __atomic_load_n(&g_process.next.malloc, __ATOMIC_ACQUIRE) != nullptr;
  return known && g_process.next.*next != nullptr
             ? (g_process.next.*next)(arguments...)
             : (Result)syscall(number, arguments...);  // NOLINT(google-readability-casting)
}

}  // namespace memo
