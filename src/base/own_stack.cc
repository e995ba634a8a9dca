#include "src/base/own_stack.h"

#include "src/base/os.h"
#include "src/base/tuning.h"

namespace memo::os {

// A sanitizer knows the thread's own stack, and takes each other one for memory.
#if defined(MEMO_ASAN) || defined(MEMO_TSAN)
bool run_on_own_stack(void (*work)(void*), void* argument) {
  work(argument);
  return true;
}
#else
// Calls work(argument) with the stack pointer at `top`. The frame is described by the frame
// pointer, which no call changes: a description by the stack pointer, as a compiler's own may be,
// sends debuggers and profilers beyond `top` for the caller's frame.
extern "C" [[gnu::visibility("hidden")]] void memo_call_on(char* top, void (*work)(void*),
                                                           void* argument);
asm(".pushsection .text\n"
    ".p2align 4\n"
    ".type memo_call_on, @function\n"
    ".hidden memo_call_on\n"
    "memo_call_on:\n"
    ".cfi_startproc\n"
#if defined(__x86_64__)
    "push %rbp\n"
    ".cfi_def_cfa_offset 16\n"
    ".cfi_offset %rbp, -16\n"
    "mov %rsp, %rbp\n"
    ".cfi_def_cfa_register %rbp\n"
    "mov %rdi, %rsp\n"
    "mov %rdx, %rdi\n"
    "call *%rsi\n"
    "leave\n"
    ".cfi_def_cfa %rsp, 8\n"
#elif defined(__aarch64__)
    "stp x29, x30, [sp, #-16]!\n"
    ".cfi_def_cfa_offset 16\n"
    ".cfi_offset x29, -16\n"
    ".cfi_offset x30, -8\n"
    "mov x29, sp\n"
    ".cfi_def_cfa_register x29\n"
    "mov sp, x0\n"
    "mov x0, x2\n"
    "blr x1\n"
    "mov sp, x29\n"
    "ldp x29, x30, [sp], #16\n"
    ".cfi_def_cfa sp, 0\n"
#endif
    "ret\n"
    ".cfi_endproc\n"
    ".size memo_call_on, . - memo_call_on\n"
    ".popsection\n");

bool run_on_own_stack(void (*work)(void*), void* argument) {
  auto* const stack = static_cast<char*>(reserve(tuning::kOwnStack, page_size()));
  if (stack == nullptr) {
    return false;
  }
  const bool usable = commit(stack, tuning::kOwnStack);
  if (usable) {
    memo_call_on(stack + tuning::kOwnStack, work, argument);
  }
  unmap(stack, tuning::kOwnStack);
  return usable;
}
#endif

}  // namespace memo::os
