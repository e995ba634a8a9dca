#include "preload/background_task.h"

#include <pthread.h>
#include <csignal>

#include "src/base/descriptors.h"
#include "src/base/os.h"
#include "src/base/tuning.h"

namespace memo {
namespace {

// The thread sanitizer knows one table of descriptors a process: it would take two files of the
// same number in two tables for one.
#ifdef MEMO_TSAN
constexpr bool kOwnDescriptors = false;
#else
constexpr bool kOwnDescriptors = true;
#endif

}  // namespace

bool start_thread(void* (*body)(void*), void* argument) {
  // First of all: what follows may be calls that the program has taken from itself.
  if (os::confined()) {
    return false;
  }
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attributes, 2 * tuning::kPlanStack);
  pthread_t thread;
  const bool started = pthread_create(&thread, &attributes, body, argument) == 0;
  pthread_attr_destroy(&attributes);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return started;
}

void leave_descriptors() {
  if (kOwnDescriptors) {
    os::own_descriptors();
  }
}

void* BackgroundTask::run(void* self) {
  leave_descriptors();
  const RecursionGuard guard;
  auto& background = *static_cast<BackgroundTask*>(self);
  background.work_(guard);
  background.running_ = false;
  return nullptr;
}

void BackgroundTask::start() {
  if (!running_.exchange(true) && !start_thread(run, this)) {
    running_ = false;
  }
}

}  // namespace memo
