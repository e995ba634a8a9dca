// Keys of threads: the one that the library has taken (thread_end.h) is the program's where it
// wants all. Cold.
#include <pthread.h>
#include <cerrno>

#include "preload/process.h"
#include "preload/shim.h"
#include "preload/thread_end.h"

namespace memo {
namespace {

constexpr int kThreadError = 2;  // thrd_error

// Where all keys of the C library are taken, ours is given to the program. A thread that begins may
// take it in between.
template <typename Create>
int with_another_key(Create create, int full) {
  int answer = create();
  while (answer == full && give_up_thread_end()) {
    answer = create();
  }
  return answer;
}

}  // namespace

int shim::pthread_key_create(pthread_key_t* key, void (*end)(void*)) {
  find_next_allocator();
  const auto next = g_process.next.pthread_key_create;
  return next == nullptr ? ENOSYS : with_another_key([=] { return next(key, end); }, EAGAIN);
}

int shim::tss_create(unsigned* key, void (*end)(void*)) {
  find_next_allocator();
  const auto next = g_process.next.tss_create;
  return next == nullptr ? kThreadError
                         : with_another_key([=] { return next(key, end); }, kThreadError);
}

}  // namespace memo
