#include "src/base/own_stack.h"

#include "src/base/os.h"
#include "src/base/tuning.h"

namespace memo::os {
namespace {

// The frame pointer is kept, so that unwinders find the caller's frame.
[[maybe_unused, gnu::noinline]] void call_on(char* top, void (*work)(void*), void* argument) {
#if defined(__x86_64__)
  asm volatile(
      "movq %%rsp, %%rbx\n\t"
      "movq %[top], %%rsp\n\t"
      "call *%[work]\n\t"
      "movq %%rbx, %%rsp"
      : "+D"(argument)
      : [top] "r"(top), [work] "r"(work)
      : "rbx", "rax", "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "memory", "cc", "xmm0", "xmm1",
        "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12",
        "xmm13", "xmm14", "xmm15");
#elif defined(__aarch64__)
  register void* first asm("x0") = argument;
  asm volatile(
      "mov x19, sp\n\t"
      "mov sp, %[top]\n\t"
      "blr %[work]\n\t"
      "mov sp, x19"
      : "+r"(first)
      : [top] "r"(top), [work] "r"(work)
      : "x19", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13",
        "x14", "x15", "x16", "x17", "x18", "x30", "memory", "cc", "v0", "v1", "v2", "v3", "v4",
        "v5", "v6", "v7", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25",
        "v26", "v27", "v28", "v29", "v30", "v31");
#endif
}

}  // namespace

// A sanitizer knows the thread's own stack, and takes each other one for memory.
#if defined(MEMO_ASAN) || defined(MEMO_TSAN)
bool run_on_own_stack(void (*work)(void*), void* argument) {
  work(argument);
  return true;
}
#else
bool run_on_own_stack(void (*work)(void*), void* argument) {
  auto* const stack = static_cast<char*>(reserve(tuning::kOwnStack, page_size()));
  if (stack == nullptr) {
    return false;
  }
  const bool usable = commit(stack, tuning::kOwnStack);
  if (usable) {
    call_on(stack + tuning::kOwnStack, work, argument);
  }
  unmap(stack, tuning::kOwnStack);
  return usable;
}
#endif

}  // namespace memo::os
