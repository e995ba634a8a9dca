#include "preload/thread_end.h"

#include <pthread.h>

#include "preload/process.h"

namespace memo {
namespace {

constexpr state::ThreadEnd& kept = g_process.thread_end;

}  // namespace
void prepare_thread_end(void (*end)(void*)) {
  kept.have_key = g_process.next.pthread_key_create != nullptr &&
                  g_process.next.pthread_key_create(&kept.key, end) == 0;
}

// The key's value only has to be non-null for `end` to be called.
void tell_at_thread_end() {
  if (kept.have_key) {
    pthread_setspecific(kept.key, &kept.key);
  }
}

bool give_up_thread_end() {
  return kept.have_key.exchange(false) && pthread_key_delete(kept.key) == 0;
}

// The child's one thread may not have told its parent.
void state::ThreadEnd::forked() {
  tell_at_thread_end();
}

}  // namespace memo
