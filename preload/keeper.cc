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
constinit std::atomic<bool> searching{false};
// The planners' need, as src/engine has it for a program's own threads.
constexpr std::size_t kStack = std::size_t{1024} * 1024;

// Starts a thread that nobody waits for, with the caller's signals; false if the system refuses it.
bool start(void* (*body)(void*)) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attributes, kStack);
  pthread_t thread;
  const bool started = pthread_create(&thread, &attributes, body, nullptr) == 0;
  pthread_attr_destroy(&attributes);
  return started;
}

// One search. It gives the processor up to whoever wants it, and an ordinary user's thread cannot
// take that back: the keeper, who holds locks, must not search itself.
void* search(void*) {
  const RecursionGuard guard;
  g_process.engine.search(guard);
  searching = false;
  return nullptr;
}

void* keep(void*) {
  const RecursionGuard guard;  // for the thread's whole life: its allocations are the library's own
  const timespec second{1, 0};
  for (;;) {
    g_process.engine.tick(os::nanoseconds());
    if (g_process.engine.wants_search() && !searching.exchange(true) && !start(search)) {
      searching = false;
    }
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
  start(keep);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void forget_keeper() {
  running = searching = false;
}

}  // namespace memo
