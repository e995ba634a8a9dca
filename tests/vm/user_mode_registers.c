// Lets user-mode Linux 6.1 run where the processor's registers take more room than it has for them (AMX: 11 KiB, 2.7 known):
// the host's kernel takes a process' extended registers only as a whole. What the guest's kernel knows is set, the rest stays.
// To be preloaded into linux.uml.
#define _GNU_SOURCE
#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { kExtendedRegisters = 0x202, kMost = 1 << 16 };  // NT_X86_XSTATE

static long set_extended(int process, const struct iovec* known) {
  static char bytes[kMost];
  struct iovec whole = {bytes, sizeof bytes};
  void* const kind = (void*)(long)kExtendedRegisters;
  if (syscall(SYS_ptrace, PTRACE_GETREGSET, process, kind, &whole) < 0) {
    return -1;
  }
  memcpy(bytes, known->iov_base, known->iov_len < whole.iov_len ? known->iov_len : whole.iov_len);
  return syscall(SYS_ptrace, PTRACE_SETREGSET, process, kind, &whole);
}

// The system call itself writes what is peeked at to where `data` points.
static long peek(int request, int process, void* address) {
  long value = 0;
  const long result = syscall(SYS_ptrace, request, process, address, &value);
  if (result < 0) {
    return result;
  }
  errno = 0;
  return value;
}

long ptrace(enum __ptrace_request request, ...) {
  va_list rest;
  va_start(rest, request);
  const int process = va_arg(rest, int);
  void* const address = va_arg(rest, void*);
  void* const data = va_arg(rest, void*);
  va_end(rest);
  if (request == PTRACE_PEEKTEXT || request == PTRACE_PEEKDATA || request == PTRACE_PEEKUSER) {
    return peek(request, process, address);
  }
  if (request == PTRACE_SETREGSET && (long)address == kExtendedRegisters) {
    return set_extended(process, data);
  }
  return syscall(SYS_ptrace, request, process, address, data);
}
