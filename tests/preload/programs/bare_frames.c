// Callers that an unwinder knows nothing about: code without unwind tables and with a frame pointer
// that points nowhere, and code generated at run time, as a just-in-time compiler makes it.
#define _GNU_SOURCE
#include <sys/mman.h>

#include "support.h"

void* call_bare(void* (*function)(size_t), size_t size);

// No .cfi directives: there is no unwind information for these instructions.
#if defined(__x86_64__)
__asm__(
    ".text\n.globl call_bare\n.type call_bare,@function\ncall_bare:\n"
    "  push %rbp\n  push %rbx\n  sub $24,%rsp\n  movabs $0x4141414141414141,%rbp\n  mov $-1,%rbx\n"
    "  mov %rdi,%rax\n  mov %rsi,%rdi\n  call *%rax\n"
    "  add $24,%rsp\n  pop %rbx\n  pop %rbp\n  ret\n.size call_bare,.-call_bare\n");
// mov rax,rdi; mov rdi,rsi; push rbp; mov rbp,-1; call rax; pop rbp; ret
static const unsigned char kCode[] = {0x48, 0x89, 0xf8, 0x48, 0x89, 0xf7, 0x55, 0x48, 0xc7,
                                      0xc5, 0xff, 0xff, 0xff, 0xff, 0xff, 0xd0, 0x5d, 0xc3};
#elif defined(__aarch64__)
__asm__(
    ".text\n.globl call_bare\n.type call_bare,%function\ncall_bare:\n"
    "  stp x29,x30,[sp,#-32]!\n  mov x29,#0x4141\n  mov x2,x0\n  mov x0,x1\n  blr x2\n"
    "  ldp x29,x30,[sp],#32\n  ret\n.size call_bare,.-call_bare\n");
// stp x29,x30,[sp,#-16]!; mov x29,#1; mov x2,x0; mov x0,x1; blr x2; ldp x29,x30,[sp],#16; ret
static const unsigned char kCode[] = {0xfd, 0x7b, 0xbf, 0xa9, 0x3d, 0x00, 0x80, 0xd2, 0xe2, 0x03,
                                      0x00, 0xaa, 0xe0, 0x03, 0x01, 0xaa, 0x40, 0x00, 0x3f, 0xd6,
                                      0xfd, 0x7b, 0xc1, 0xa8, 0xc0, 0x03, 0x5f, 0xd6};
#else
#error "write call_bare and kCode for this processor"
#endif

typedef void* (*caller)(void* (*)(size_t), size_t);

static void repeat_through(caller call) {
  for (int i = 0; i < kRepetitions; ++i) {
    void* blocks[kStepCount];
    for (unsigned j = 0; j < kStepCount; ++j) {
      blocks[j] = call(malloc, step_size(j));
      CHECK(blocks[j] != NULL);
      fill(blocks[j], step_size(j), j);
    }
    free_steps(blocks);
  }
}

int main(void) {
  repeat_through(call_bare);
  check_served();
  printf("bare frames ok\n");
  void* code = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(code != MAP_FAILED);
  memcpy(code, kCode, sizeof kCode);
  CHECK(mprotect(code, 4096, PROT_READ | PROT_EXEC) == 0);
  __builtin___clear_cache((char*)code, (char*)code + 4096);
  repeat_through((caller)code);
  printf("generated code ok\n");
  return 0;
}
