#include "preload/thread_end.h"

#include <pthread.h>

#include "preload/process.h"

namespace memo {

void prepare_thread_end(void (*end)(void*)) {
  g_process.thread_end.have_key =
      g_process.next.pthread_key_create != nullptr &&
      g_process.next.pthread_key_create(&g_process.thread_end.key, end) == 0;
}

// The key's value only has to be non-null for `end` to be called.
void tell_at_thread_end() {
  if (g_process.thread_end.have_key) {
    pthread_setspecific(g_process.thread_end.key, &g_process.thread_end.key);
  }
}

bool give_up_thread_end() {
  return g_process.thread_end.have_key.exchange(false) &&
         pthread_key_delete(g_process.thread_end.key) == 0;
}

// The child's one thread may not have told its parent.
void state::ThreadEnd::forked() {
  tell_at_thread_end();
}

}  // namespace memo
