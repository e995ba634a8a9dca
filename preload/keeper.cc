#include "preload/keeper.h"

#include <pthread.h>
#include <atomic>
#include <csignal>
#include <ctime>

#include "preload/process.h"
#include "src/base/os.h"

namespace memo {
namespace {

constinit std::atomic<bool> running{false};
// The planners' need, as src/engine has it for a program's own threads.
constexpr std::size_t kStack = std::size_t{1024} * 1024;

void* keep(void*) {
  const RecursionGuard guard;  // for the thread's whole life: its allocations are the library's own
  const timespec second{1, 0};
  for (;;) {
    g_process.engine.tick(os::nanoseconds());
    g_process.engine.search(guard);
    nanosleep(&second, nullptr);
  }
}

}  // namespace

void start_keeper(const RecursionGuard&) {
  // Creating a thread takes another of the dynamic linker's locks: not in a callback under the
  // first. A later start of serving will do.
  if (in_loader() || running.load(std::memory_order_relaxed) || running.exchange(true)) {
    return;
  }
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attributes, kStack);
  pthread_t thread;
  pthread_create(&thread, &attributes, keep, nullptr);
  pthread_attr_destroy(&attributes);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void forget_keeper() {
  running = false;
}

}  // namespace memo
