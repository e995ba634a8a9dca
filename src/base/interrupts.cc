#include "src/base/interrupts.h"

#include <pthread.h>
#include <initializer_list>

#include "src/base/os.h"

namespace memo {

NoInterrupts::NoInterrupts() {
  if (os::confined()) {
    return;
  }
  sigset_t set;
  sigfillset(&set);
  for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS}) {
    sigdelset(&set, own);
  }
  changed_ = pthread_sigmask(SIG_BLOCK, &set, &before_) == 0;
}

NoInterrupts::~NoInterrupts() {
  if (changed_) {
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
}

}  // namespace memo
