#include "src/base/interrupts.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <initializer_list>

#include "src/base/check.h"
#include "src/base/guard.h"
#include "src/base/keep_errno.h"
#include "src/base/os.h"

namespace memo {
namespace {

constexpr int kOfWriting[] = {SIGPIPE, SIGXFSZ};
constexpr std::size_t kKernelSet = 8;  // bytes of the kernel's set of 64 signals

// False where the thread is confined.
bool block_interrupts(sigset_t* before) {
  if (os::confined()) {
    return false;
  }
  sigset_t set;
  sigfillset(&set);
  for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS}) {
    sigdelset(&set, own);
  }
  return pthread_sigmask(SIG_BLOCK, &set, before) == 0;
}

}  // namespace

NoInterrupts::NoInterrupts() : changed_(block_interrupts(&before_)) {}

NoInterrupts::~NoInterrupts() {
  if (changed_) {
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
}

void hold_signals() {
  ThreadState& thread = t_state;
  sigset_t before;
  if (thread.holds == 0) {
    if (!block_interrupts(&before)) {
      return;
    }
    std::memcpy(&thread.held_signals, &before, kKernelSet);
  }
  MEMO_DCHECK(thread.holds != UINT8_MAX);
  ++thread.holds;
}

void release_signals() {
  ThreadState& thread = t_state;
  if (thread.holds != 0 && --thread.holds == 0) {
    sigset_t before;
    sigemptyset(&before);
    std::memcpy(&before, &thread.held_signals, kKernelSet);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }
}

namespace {

// Takes the signals of `set` that are pending. Not sigtimedwait(), at which a thread may be
// cancelled.
void take_pending(const sigset_t& set) {
  constexpr int kMost = 64;  // a filter may answer what no kernel does
  const timespec at_once{};
  long taken = 1;
  for (int i = 0; i < kMost && (taken > 0 || (taken < 0 && errno == EINTR)); ++i) {
    taken = syscall(SYS_rt_sigtimedwait, &set, nullptr, &at_once, kKernelSet);
  }
}

}  // namespace

NoWriteSignals::NoWriteSignals() {
  const os::KeepErrno keep_errno;
  sigset_t pending;
  sigset_t set;
  sigemptyset(&set);
  for (const int one : kOfWriting) {
    sigaddset(&set, one);
  }
  changed_ = !os::confined() && pthread_sigmask(SIG_BLOCK, &set, &before_) == 0;
  // After the mask was set: what comes from elsewhere between the two waits as well.
  taken_ = set;
  const bool told = changed_ && sigpending(&pending) == 0;
  for (const int one : kOfWriting) {
    if (told && sigismember(&pending, one) == 1) {
      sigdelset(&taken_, one);
    }
  }
}

NoWriteSignals::~NoWriteSignals() {
  if (changed_) {
    const os::KeepErrno keep_errno;
    take_pending(taken_);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
}

}  // namespace memo
