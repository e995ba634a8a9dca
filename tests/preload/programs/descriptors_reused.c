// A daemon closes all descriptors, whoever opened them, and opens sockets, which get the numbers.
// Large calls from any depth of the stack neither take a byte from these nor add one.
#include <fcntl.h>
#include <sys/socket.h>

#include "support.h"

enum { kPairs = 8, kLastClosed = 255 };

static int ends[kPairs][2];
static const char kMessage[] = "not a byte more, not a byte less";

// Code without unwind information, whose caller an unwinder can only guess by the frame pointer;
// what it guesses it must try before it reads there.
void call_bare(void (*function)(void));
#if defined(__x86_64__)
__asm__(
    ".text\n.globl call_bare\n.type call_bare,@function\ncall_bare:\n"
    "  push %rbp\n  mov %rsp,%rbp\n  call *%rdi\n  pop %rbp\n  ret\n"
    ".size call_bare,.-call_bare\n");
#elif defined(__aarch64__)
__asm__(
    ".text\n.globl call_bare\n.type call_bare,%function\ncall_bare:\n"
    "  stp x29,x30,[sp,#-16]!\n  mov x29,sp\n  blr x0\n  ldp x29,x30,[sp],#16\n  ret\n"
    ".size call_bare,.-call_bare\n");
#else
#error "write call_bare for this processor"
#endif

// New pages of the stack from call to call.
__attribute__((noinline)) static void learn_deeper(int depth) {
  volatile char frame[5000];
  frame[0] = (char)depth;
  call_bare(learn_steps);
  if (depth > 0)
    learn_deeper(depth - 1);
  CHECK(frame[0] == (char)depth);
}

static void send_from_each_end(void) {
  for (int i = 0; i < kPairs; ++i)
    for (int end = 0; end < 2; ++end)
      CHECK(send(ends[i][end], kMessage, sizeof kMessage, 0) == sizeof kMessage);
}

static void expect_at_each_end(void) {
  char got[2 * sizeof kMessage];
  for (int i = 0; i < kPairs; ++i)
    for (int end = 0; end < 2; ++end) {
      CHECK(recv(ends[i][end], got, sizeof got, 0) == sizeof kMessage);
      CHECK(memcmp(got, kMessage, sizeof kMessage) == 0);
      CHECK(recv(ends[i][end], got, sizeof got, 0) == -1 && errno == EAGAIN);
    }
}

int main(void) {
  learn_deeper(2);
  for (int number = 3; number <= kLastClosed; ++number)
    close(number);
  for (int i = 0; i < kPairs; ++i)
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends[i]) == 0);
  CHECK(ends[0][0] == 3);
  for (int round = 0; round < 3; ++round) {
    send_from_each_end();
    learn_deeper(6 + 2 * round);
    expect_at_each_end();
  }
  check_served();
  printf("descriptors ok\n");
  return 0;
}
