#include "preload/thread_end.h"

#include <pthread.h>
#include <threads.h>
#include <atomic>
#include <cerrno>

#include "preload/process.h"
#include "preload/shim.h"

namespace memo {
namespace {

constinit pthread_key_t key = 0;
constinit std::atomic<bool> have_key{false};

}  // namespace

void prepare_thread_end(void (*end)(void*)) {
  have_key = g_process.next.pthread_key_create != nullptr &&
             g_process.next.pthread_key_create(&key, end) == 0;
}

// The key's value only has to be non-null for `end` to be called.
void tell_at_thread_end() {
  if (have_key) {
    pthread_setspecific(key, &key);
  }
}

namespace {

bool give_up_thread_end() {
  return have_key.exchange(false) && pthread_key_delete(key) == 0;
}

// The C library has so many keys for all: the last one is the program's, and ends are not told any more.
template <typename Create>
int with_another_key(Create create, int full) {
  const int answer = create();
  return answer == full && give_up_thread_end() ? create() : answer;
}

}  // namespace

int shim::pthread_key_create(pthread_key_t* key, void (*end)(void*)) {
  find_next_allocator();
  const auto next = g_process.next.pthread_key_create;
  return next == nullptr ? ENOSYS : with_another_key([=] { return next(key, end); }, EAGAIN);
}

int shim::tss_create(tss_t* key, tss_dtor_t end) {
  find_next_allocator();
  const auto next = g_process.next.tss_create;
  return next == nullptr ? thrd_error
                         : with_another_key([=] { return next(key, end); }, thrd_error);
}

}  // namespace memo
