#include "src/base/own_thread.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <climits>
#include <csignal>

#include "src/base/descriptors.h"
#include "src/base/keep_errno.h"
#include "src/base/own_stack.h"
#include "src/base/tuning.h"

namespace memo::os {
namespace {

// Until the word is no longer `value`. Where the kernel refuses to let it sleep, it goes round.
void wait_while(const std::atomic<std::uint32_t>& word, std::uint32_t value) {
  while (word.load(std::memory_order_acquire) == value) {
    syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, value, nullptr);
  }
}

void change(std::atomic<std::uint32_t>& word, std::uint32_t value) {
  word.store(value, std::memory_order_release);
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, INT_MAX);
}

}  // namespace

bool start_own_thread(void* (*body)(void*), void* argument, pthread_t* joined,
                      const RecursionGuard&) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  sigdelset(&all, SIGSYS);  // blocked, a filter's trap would end the process
  pthread_sigmask(SIG_SETMASK, &all, &before);
  // glibc puts the program's thread-local storage into the stack: where kOwnStack has no room for
  // it, the stack is as large as the program's threads'.
  bool started = false;
  for (int usual = 0; usual < 2 && !started; ++usual) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    if (usual == 0) {
      pthread_attr_setstacksize(&attributes, tuning::kOwnStack);
    }
    pthread_attr_setdetachstate(
        &attributes, joined == nullptr ? PTHREAD_CREATE_DETACHED : PTHREAD_CREATE_JOINABLE);
    pthread_t thread;
    started =
        pthread_create(joined == nullptr ? &thread : joined, &attributes, body, argument) == 0;
    pthread_attr_destroy(&attributes);
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return started;
}

void* Apart::begin(void* self) {
  const RecursionGuard guard;
  own_descriptors();
  auto& apart = *static_cast<Apart*>(self);
  // Planning needs more stack than thread-local storage may have left.
  auto work = [&] { apart.work_(apart.argument_, guard); };
  if (!run_on_own_stack(work)) {
    work();
  }
  change(apart.state_, kJoin);
  return nullptr;
}

void Apart::run(Work work, void* argument) {
  const KeepErrno keep;
  const RecursionGuard guard;
  work_ = work;
  argument_ = argument;
  state_.store(kWait, std::memory_order_relaxed);
  apart_ = true;
// The thread sanitizer knows one table of descriptors a process: it would take two files of the
// same number in two tables for one.
#ifndef MEMO_TSAN
  if (pthread_t thread; start_own_thread(begin, this, &thread, guard)) {
    for (wait_while(state_, kWait); state_.load(std::memory_order_relaxed) == kCall;
         wait_while(state_, kWait)) {
      function_(its_argument_, guard);
      change(state_, kWait);
    }
    pthread_join(thread, nullptr);
    return;
  }
#endif
  apart_ = false;
  work(argument, guard);
}

void Apart::step_back(Work function, void* argument) {
  if (!apart_) {
    const RecursionGuard guard;
    function(argument, guard);
    return;
  }
  function_ = function;
  its_argument_ = argument;
  change(state_, kCall);
  wait_while(state_, kCall);
}

}  // namespace memo::os
