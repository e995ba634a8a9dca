#include "src/base/apart.h"

#include <linux/futex.h>
#include <linux/sched.h>
#include <sys/syscall.h>
#include <climits>

#include "src/base/descriptors.h"
#include "src/base/keep_errno.h"
#include "src/base/system_call.h"

namespace memo::os {
namespace {

// As glibc starts a thread, without thread-local storage of its own.
constexpr long kFlags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD |
                        CLONE_SYSVSEM | CLONE_CHILD_CLEARTID;

// Until the word is no longer `value`. No errno, which the other task has as well. Where the kernel
// refuses to let it sleep, it goes round.
void wait_while(std::atomic<std::uint32_t>& word, std::uint32_t value) {
  while (word.load(std::memory_order_acquire) == value) {
    // Not private: by such a call the kernel wakes a waiter at the end of a task.
    system_call(SYS_futex, &word, FUTEX_WAIT, value, nullptr);
  }
}

void change(std::atomic<std::uint32_t>& word, std::uint32_t value) {
  word.store(value, std::memory_order_release);
  system_call(SYS_futex, &word, FUTEX_WAKE, INT_MAX);
}

}  // namespace

void Apart::begin(void* self) {
  own_descriptors();
  auto& apart = *static_cast<Apart*>(self);
  apart.work_(apart.argument_);
}

// The new task's number, or a negative errno. The task ends here, without a way back to the
// thread's frames.
[[gnu::noinline]] long Apart::start() {
  char* const here = static_cast<char*>(__builtin_frame_address(0));
  char* const stack =
      reinterpret_cast<char*>(reinterpret_cast<std::uint64_t>(here - kStackGap) & ~UINT64_C(63));
#if defined(__x86_64__)
  long answer = SYS_clone;
  register std::atomic<std::uint32_t>* gone asm("r10") = &state_;
  register long storage asm("r8") = 0;
  register void (*work)(void*) asm("r12") = begin;
  register Apart* self asm("r13") = this;
  asm volatile(
      "syscall\n\t"
      "testq %%rax, %%rax\n\t"
      "jnz 1f\n\t"
      "xorl %%ebp, %%ebp\n\t"
      "movq %%r13, %%rdi\n\t"
      "call *%%r12\n\t"
      "movl %[exit], %%eax\n\t"
      "xorl %%edi, %%edi\n\t"
      "syscall\n\t"
      "ud2\n"
      "1:"
      : "+a"(answer)
      : "D"(kFlags), "S"(stack), "d"(0L), "r"(gone), "r"(storage), "r"(work),
        "r"(self), [exit] "i"(SYS_exit)
      : "rcx", "r11", "memory", "cc");
  return answer;
#elif defined(__aarch64__)
  register long kind asm("x8") = SYS_clone;
  register long answer asm("x0") = kFlags;
  register char* below asm("x1") = stack;
  register long parent asm("x2") = 0;
  register long storage asm("x3") = 0;
  register std::atomic<std::uint32_t>* gone asm("x4") = &state_;
  register void (*work)(void*) asm("x20") = begin;
  register Apart* self asm("x21") = this;
  asm volatile(
      "svc 0\n\t"
      "cbnz x0, 1f\n\t"
      "mov x29, xzr\n\t"
      "mov x30, xzr\n\t"
      "mov x0, x21\n\t"
      "blr x20\n\t"
      "mov x8, %[exit]\n\t"
      "mov x0, xzr\n\t"
      "svc 0\n\t"
      "brk 1\n"
      "1:"
      : "+r"(answer)
      : "r"(kind), "r"(below), "r"(parent), "r"(storage), "r"(gone), "r"(work),
        "r"(self), [exit] "i"(SYS_exit)
      : "x30", "memory", "cc");
  return answer;
#endif
}

void Apart::run(Work work, void* argument) {
  const KeepErrno keep;
  work_ = work;
  argument_ = argument;
  state_.store(kRunning, std::memory_order_relaxed);
  apart_ = true;
// The thread sanitizer knows one table of descriptors a process: it would take two files of the
// same number in two tables for one.
#ifndef MEMO_TSAN
  if (start() > 0) {
    for (std::uint32_t state = kRunning; state != kGone;) {
      wait_while(state_, kRunning);
      state = state_.load(std::memory_order_acquire);
      if (state == kCallsBack) {
        function_(its_argument_);
        change(state_, kRunning);
      }
    }
    return;
  }
#endif
  apart_ = false;
  work(argument);
}

void Apart::step_back(Work function, void* argument) {
  if (!apart_) {
    function(argument);
    return;
  }
  function_ = function;
  its_argument_ = argument;
  change(state_, kCallsBack);
  wait_while(state_, kCallsBack);
}

}  // namespace memo::os
