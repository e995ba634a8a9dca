// A system call by its instruction: no name that a program may define, no errno, no place where a
// thread is cancelled. Hot.
#pragma once

#include <cerrno>
#include <type_traits>

namespace memo::os {

// As the kernel has it: from -4095 to -1 the negative errno of a refusal.
inline long system_call_of_words(long number, long a, long b, long c, long d, long e, long f) {
#if defined(__x86_64__)
  long answer = number;
  register long fourth asm("r10") = d;
  register long fifth asm("r8") = e;
  register long sixth asm("r9") = f;
  asm volatile("syscall"
               : "+a"(answer)
               : "D"(a), "S"(b), "d"(c), "r"(fourth), "r"(fifth), "r"(sixth)
               : "rcx", "r11", "memory");
  return answer;
#elif defined(__aarch64__)
  register long kind asm("x8") = number;
  register long first asm("x0") = a;
  register long second asm("x1") = b;
  register long third asm("x2") = c;
  register long fourth asm("x3") = d;
  register long fifth asm("x4") = e;
  register long sixth asm("x5") = f;
  asm volatile("svc 0"
               : "+r"(first)
               : "r"(kind), "r"(second), "r"(third), "r"(fourth), "r"(fifth), "r"(sixth)
               : "memory");
  return first;
#else
#error "system calls are written for x86-64 and AArch64"
#endif
}

template <typename Argument>
long word_of(Argument argument) {
  if constexpr (std::is_pointer_v<Argument>) {
    return reinterpret_cast<long>(argument);
  } else if constexpr (std::is_null_pointer_v<Argument>) {
    return 0;
  } else {
    return static_cast<long>(argument);
  }
}

// The kernel's answer to at most six arguments.
template <typename... Arguments>
long system_call(long number, Arguments... arguments) {
  static_assert(sizeof...(Arguments) <= 6);
  const long words[6] = {word_of(arguments)...};
  return system_call_of_words(number, words[0], words[1], words[2], words[3], words[4], words[5]);
}

}  // namespace memo::os
