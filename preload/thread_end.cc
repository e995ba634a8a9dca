#include "preload/thread_end.h"

#include <pthread.h>

#include "preload/process.h"

namespace memo {

namespace {

// The key, which is taken now where there was none; kNone: the program has all.
std::uint64_t key_of_ends() {
  std::uint64_t key = g_process.thread_end.key;
  pthread_key_t fresh = 0;
  if (key == state::ThreadEnd::kNone && g_process.thread_end.end != nullptr &&
      g_process.next.pthread_key_create != nullptr &&
      g_process.next.pthread_key_create(&fresh, g_process.thread_end.end) == 0) {
    if (g_process.thread_end.key.compare_exchange_strong(key, fresh)) {
      return fresh;
    }
    pthread_key_delete(fresh);  // another thread has taken one meanwhile
  }
  return key;
}

}  // namespace

void prepare_thread_end(void (*end)(void*)) {
  g_process.thread_end.end = end;
}

// The key's value only has to be non-null for `end` to be called.
void tell_at_thread_end() {
  if (const std::uint64_t key = key_of_ends(); key != state::ThreadEnd::kNone) {
    pthread_setspecific(static_cast<pthread_key_t>(key), &g_process.thread_end.key);
  }
}

bool give_up_thread_end() {
  const std::uint64_t key = g_process.thread_end.key.exchange(state::ThreadEnd::kNone);
  return key != state::ThreadEnd::kNone && pthread_key_delete(static_cast<pthread_key_t>(key)) == 0;
}

// The child's one thread may not have told its parent.
void state::ThreadEnd::forked() {
  tell_at_thread_end();
}

}  // namespace memo
