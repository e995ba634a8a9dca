// Calls before the constructors of any library and after their destructors, in atexit handlers, in
// destructors of thread-local objects and of pthread keys.
#include <malloc.h>

#include "support.h"

namespace {

void* early_small;
void* early_large;

void round_trip(unsigned id) {
  void* blocks[kStepCount];
  take_steps(blocks);
  free_steps(blocks);
  void* zeroed = std::calloc(3, KIB(50));
  CHECK(zeroed && all_zero(zeroed, KIB(150)));
  fill(zeroed, KIB(150), id);
  zeroed = std::realloc(zeroed, KIB(300));
  CHECK(zeroed && filled(zeroed, KIB(150), id));
  std::free(zeroed);
}

void say(const char* text) {
  CHECK(write(STDOUT_FILENO, text, strlen(text)) > 0);
}

void* kept_until_the_end;

// Registered before the dynamic linker registers the libraries' destructors, so it runs after them.
void after_all_destructors(int, void*) {
  round_trip(1);
  CHECK(filled(kept_until_the_end, KIB(256), 9));
  std::free(kept_until_the_end);
  say("after the destructors ok\n");
}

// The loader runs .preinit_array before any constructor, ours included.
void before_all_constructors(int, char**, char**) {
  early_small = std::malloc(100);
  early_large = std::malloc(KIB(200));
  CHECK(early_small && early_large);
  fill(early_small, 100, 1);
  fill(early_large, KIB(200), 2);
  void* aligned = nullptr;
  CHECK(posix_memalign(&aligned, 4096, KIB(100)) == 0);
  std::free(aligned);
  CHECK(on_exit(after_all_destructors, nullptr) == 0);
}
__attribute__((section(".preinit_array"), used)) void (*preinit)(int, char**,
                                                                 char**) = before_all_constructors;

__attribute__((constructor)) void in_constructor() {
  round_trip(2);
  say("constructor ok\n");
}

__attribute__((destructor)) void in_destructor() {
  round_trip(3);
  say("destructor ok\n");
}

struct Holder {
  void* block = std::malloc(KIB(128));
  Holder() { fill(block, KIB(128), 4); }
  ~Holder() {
    CHECK(filled(block, KIB(128), 4));
    std::free(block);
    round_trip(5);
  }
};
thread_local Holder holder;
Holder global_holder;

pthread_key_t key;

void key_destructor(void* block) {
  CHECK(filled(block, KIB(90), 6));
  std::free(block);
  round_trip(7);
}

void* use_thread_locals(void*) {
  learn_steps();
  CHECK(holder.block != nullptr);
  void* block = std::malloc(KIB(90));
  CHECK(block != nullptr);
  fill(block, KIB(90), 6);
  CHECK(pthread_setspecific(key, block) == 0);
  return nullptr;
}

void in_atexit() {
  round_trip(8);
  say("atexit ok\n");
}

}  // namespace

int main() {
  CHECK(filled(early_small, 100, 1) && filled(early_large, KIB(200), 2));
  std::free(early_small);
  std::free(early_large);
  CHECK(pthread_key_create(&key, key_destructor) == 0);
  CHECK(std::atexit(in_atexit) == 0);
  for (int i = 0; i < 4; ++i) {
    pthread_t thread;
    CHECK(pthread_create(&thread, nullptr, use_thread_locals, nullptr) == 0);
    CHECK(pthread_join(thread, nullptr) == 0);
  }
  say("threads ok\n");
  use_thread_locals(nullptr);
  check_served();
  kept_until_the_end = std::malloc(KIB(256));
  fill(kept_until_the_end, KIB(256), 9);
  return 0;
}
