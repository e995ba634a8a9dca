#include "preload/thread_end.h"

#include <pthread.h>
#include <atomic>

#include "preload/process.h"

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

bool give_up_thread_end() {
  return have_key.exchange(false) && pthread_key_delete(key) == 0;
}

}  // namespace memo
