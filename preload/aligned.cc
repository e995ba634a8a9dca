#include "preload/aligned.h"

#include <stdlib.h>
#include <string.h>
#include <new>

#include "preload/process.h"
#include "preload/thread_end.h"
#include "src/engine/misuse.h"

namespace memo {
namespace {

constinit bool keeps = false;

bool tells(const char* variable, const char* word) {
  const char* value = getenv(variable);
  return value != nullptr && strstr(value, word) != nullptr;
}

// The C library was asked to fill what is freed, or valgrind looks who uses it.
bool is_debugged() {
  return tells("MALLOC_PERTURB_", "") || tells("MALLOC_CHECK_", "") ||
         tells("GLIBC_TUNABLES", "glibc.malloc.perturb") || tells("LD_PRELOAD", "vgpreload");
}

bool is_kept_size(std::size_t alignment, std::size_t size) {
  return alignment == KeptBlocks::kAlignment && size <= tuning::kMaxKept;
}

// What glibc's cache of the calling thread writes into the second word of a freed block: the same in each (from 2.29 on).
std::uint64_t mark_of_freed() {
  constexpr std::size_t kSmall = 24;
  auto* volatile words = static_cast<volatile std::uint64_t*>(g_process.next.malloc(kSmall));
  if (words == nullptr) {
    return 0;
  }
  words[1] = 0;
  g_process.next.free(const_cast<std::uint64_t*>(words));
  return words[1];
}

// A thread's first. Whoever is ending keeps nothing any more.
void begin() {
  if (!keeps || t_state.left) {
    return;
  }
  void* memory = g_process.next.malloc(sizeof(KeptBlocks));
  if (memory != nullptr) {
    t_state.kept = new (memory) KeptBlocks(mark_of_freed());
    tell_at_thread_end();
  }
}

}  // namespace

void keep_aligned() {
  keeps = !g_process.observes && g_process.next.of_libc && g_process.next.knows_sizes() &&
          !is_debugged();
}

void free_aligned(void* block) {
  const std::size_t usable = g_process.next.malloc_usable_size(block);
  KeptBlocks& kept = *t_state.kept;
  KeptBlocks::Answer answer = kept.keep(block, usable);
  while (answer == KeptBlocks::Answer::kFull) {
    g_process.next.free(kept.drop());
    answer = kept.keep(block, usable);
  }
  if (answer == KeptBlocks::Answer::kTwice) [[unlikely]] {
    report_kept("free", block, usable);
  }
  if (answer == KeptBlocks::Answer::kNotWanted) {
    g_process.next.free(block);
  }
}

void* take_aligned(std::size_t alignment, std::size_t size) {
  return is_kept_size(alignment, size) && t_state.kept != nullptr ? t_state.kept->take(size)
                                                                  : nullptr;
}

void got_aligned(void* block, std::size_t alignment, std::size_t size) {
  if (block == nullptr || !is_kept_size(alignment, size)) {
    return;
  }
  if (t_state.kept == nullptr) {
    begin();
  }
  if (t_state.kept != nullptr) {
    t_state.kept->want(g_process.next.malloc_usable_size(block));
  }
}

void give_aligned_back() {
  if (t_state.kept != nullptr) {
    t_state.kept->give_back([](void* block) { g_process.next.free(block); });
  }
}

void leave_aligned() {
  give_aligned_back();
  KeptBlocks* mine = t_state.kept;
  t_state.kept = nullptr;
  g_process.next.free(mine);
}

}  // namespace memo
