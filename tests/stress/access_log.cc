// The functions that the compiler calls for each access with -fsanitize=thread, in place of the
// sanitizer's own: atomic operations are done, and all is noted. This file is not instrumented.
// Source: LLVM, compiler-rt/lib/tsan/rtl/tsan_interface.h and tsan_interface_atomic.h.
#include "tests/stress/access_log.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>

#include "src/base/guard.h"

namespace accesses {
namespace {

struct Entry {
  std::atomic<std::uint64_t> line{0};  // its number plus one; 0: none
  std::atomic<std::uint64_t> writers{0};
  std::atomic<std::uint64_t> readers{0};
  std::atomic<std::uint64_t> writes{0};
  // The code that wrote it first, and the first of another thread that wrote or read it.
  std::atomic<const void*> code[2] = {};
  std::atomic<std::uint64_t> other{0};  // that thread's bit
};
constexpr std::uint64_t kEntries = std::uint64_t{1} << 18;
constinit Entry* g_entries = nullptr;  // zeroes are an empty table
constinit std::uint64_t g_left_out = 0;
constinit std::uint64_t g_left_out_bytes = 0;

constinit thread_local int t_number = -1;
constinit thread_local Locking t_locking;
constinit thread_local std::uint64_t t_own = 0;
constinit thread_local std::uint64_t t_own_bytes = 0;
constinit thread_local std::uint64_t t_held = 0;   // locks that are not its own
constinit thread_local std::uint64_t t_since = 0;  // accesses before the first of them
constinit thread_local const volatile void* t_missed = nullptr;  // the lock that was tried last

Entry& entry_of(std::uint64_t line) {
  const std::uint64_t key = line + 1;
  std::uint64_t at = (line * 0x9e3779b97f4a7c15ULL) >> 46;
  static_assert(kEntries == std::uint64_t{1} << (64 - 46));
  for (std::uint64_t tries = 0; tries < kEntries; ++tries, at = (at + 1) % kEntries) {
    std::uint64_t found = g_entries[at].line.load(std::memory_order_acquire);
    if (found == key ||
        (found == 0 && (g_entries[at].line.compare_exchange_strong(found, key) || found == key))) {
      return g_entries[at];
    }
  }
  std::fprintf(stderr, "more cache lines than the table has room for\n");
  std::abort();
}

void note(const volatile void* address, std::uint64_t bytes, bool writes, const void* code) {
  if (t_held != 0) {
    ++t_locking.accesses;
  }
  if (t_number < 0 || bytes == 0) {
    return;
  }
  const auto start = reinterpret_cast<std::uint64_t>(address);
  if (start - g_left_out < g_left_out_bytes) {
    return;
  }
  const std::uint64_t bit = std::uint64_t{1} << t_number;
  for (std::uint64_t line = start / kLine; line <= (start + bytes - 1) / kLine; ++line) {
    Entry& entry = entry_of(line);
    if (writes) {
      entry.writes.fetch_add(1, std::memory_order_relaxed);
    }
    std::atomic<std::uint64_t>& users = writes ? entry.writers : entry.readers;
    if ((users.load(std::memory_order_relaxed) & bit) != 0) {
      continue;
    }
    const std::uint64_t before = users.fetch_or(bit);
    if (writes && before == 0) {
      entry.code[0] = code;
    } else {
      std::uint64_t none = 0;
      const bool again = (entry.writers.load() & ~bit) == 0;
      if (!again && (entry.other.compare_exchange_strong(none, bit) || writes)) {
        entry.code[1] = code;
      }
    }
  }
}

// The word of a lock holds the address of its owner's state (src/base/lock.h).
bool is_mine(std::uint64_t word) {
  return word == reinterpret_cast<std::uint64_t>(&memo::t_state);
}

bool is_own(const volatile void* word) {
  return reinterpret_cast<std::uint64_t>(word) - t_own < t_own_bytes;
}

void note_exchange(const volatile void* word, std::uint64_t before, std::uint64_t after, bool done,
                   const void* code) {
  if (before == 0 && is_mine(after)) {
    if (!done) {
      ++t_locking.missed;
      t_missed = word;
    } else if (is_own(word)) {
      ++t_locking.own;
    } else {
      ++t_locking.taken;
      t_locking.code = code;
      if (t_held++ == 0) {
        t_since = t_locking.accesses;
      }
    }
  } else if (done && word == t_missed && before != 0 && (after & ~before) == 1) {
    ++t_locking.slept;
  }
}

// A word that held this thread's state does no more.
void note_release(const volatile void* word, std::uint64_t before) {
  constexpr std::uint64_t kFlags = 7;
  if (t_held != 0 && is_mine(before & ~kFlags) && !is_own(word) && --t_held == 0) {
    const std::uint64_t accesses = t_locking.accesses - t_since;
    t_locking.most_accesses = std::max(t_locking.most_accesses, accesses);
  }
}

}  // namespace

void start(unsigned number) {
  t_number = static_cast<int>(number % kMaxThreads);
}
void stop() {
  t_number = -1;
}

void forget() {
  std::free(g_entries);
  g_entries = static_cast<Entry*>(std::calloc(kEntries, sizeof(Entry)));
}

void leave_out(std::uint64_t start, std::uint64_t bytes) {
  g_left_out = start;
  g_left_out_bytes = bytes;
}

Noted visit_shared(void (*visit)(const SharedLine& line)) {
  Noted noted;
  for (const Entry& entry : std::span(g_entries, g_entries == nullptr ? 0 : kEntries)) {
    const std::uint64_t writers = entry.writers.load();
    const std::uint64_t readers = entry.readers.load();
    noted.lines += writers != 0 ? 1 : 0;
    noted.writes += entry.writes.load();
    if (writers != 0 && std::popcount(writers | readers) > 1) {
      visit({.address = (entry.line.load() - 1) * kLine,
             .writers = writers,
             .readers = readers,
             .code = {entry.code[0].load(), entry.code[1].load()}});
    }
  }
  return noted;
}

void own_locks(const void* start, std::uint64_t bytes) {
  t_own = reinterpret_cast<std::uint64_t>(start);
  t_own_bytes = bytes;
}

Locking& my_locking() {
  return t_locking;
}

}  // namespace accesses

using accesses::note;
using accesses::note_exchange;
using accesses::note_release;
#define CALLER __builtin_return_address(0)

// NOLINTBEGIN(readability-identifier-naming,bugprone-reserved-identifier)
extern "C" {

void __tsan_init() {}
void __tsan_func_entry(void* /*caller*/) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void** place, void* /*value*/) {
  note(place, sizeof *place, true, CALLER);
}
void __tsan_vptr_read(void** place) {
  note(place, sizeof *place, false, CALLER);
}
void __tsan_read_range(void* start, std::size_t bytes) {
  note(start, bytes, false, CALLER);
}
void __tsan_write_range(void* start, std::size_t bytes) {
  note(start, bytes, true, CALLER);
}
void* __tsan_memcpy(void* to, const void* from, std::size_t bytes) {
  note(from, bytes, false, CALLER);
  note(to, bytes, true, CALLER);
  return std::memcpy(to, from, bytes);
}
void* __tsan_memmove(void* to, const void* from, std::size_t bytes) {
  note(from, bytes, false, CALLER);
  note(to, bytes, true, CALLER);
  return std::memmove(to, from, bytes);
}
void* __tsan_memset(void* to, int value, std::size_t bytes) {
  note(to, bytes, true, CALLER);
  return std::memset(to, value, bytes);
}

#define ACCESS(kind, bytes, writes)          \
  void __tsan_##kind##bytes(void* address) { \
    note(address, bytes, writes, CALLER);    \
  }
#define ACCESSES(bytes)                \
  ACCESS(read, bytes, false)           \
  ACCESS(write, bytes, true)           \
  ACCESS(read_write, bytes, true)      \
  ACCESS(unaligned_read, bytes, false) \
  ACCESS(unaligned_write, bytes, true) \
  ACCESS(unaligned_read_write, bytes, true)
ACCESSES(1)
ACCESSES(2)
ACCESSES(4)
ACCESSES(8)
ACCESSES(16)

void __tsan_atomic_thread_fence(int /*order*/) {
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
void __tsan_atomic_signal_fence(int /*order*/) {
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
}

// Always in the strictest order.
#define FETCH(bits, name)                                                                    \
  std::uint##bits##_t __tsan_atomic##bits##_fetch_##name(volatile std::uint##bits##_t* word, \
                                                         std::uint##bits##_t value, int) {   \
    note(word, bits / 8, true, CALLER);                                                      \
    return __atomic_fetch_##name(word, value, __ATOMIC_SEQ_CST);                             \
  }
#define COMPARE(bits, kind)                                                                     \
  int __tsan_atomic##bits##_compare_exchange_##kind(volatile std::uint##bits##_t* word,         \
                                                    std::uint##bits##_t* before,                \
                                                    std::uint##bits##_t after, int, int) {      \
    note(word, bits / 8, true, CALLER);                                                         \
    const std::uint##bits##_t expected = *before;                                               \
    const bool done = __atomic_compare_exchange_n(word, before, after, false, __ATOMIC_SEQ_CST, \
                                                  __ATOMIC_SEQ_CST);                            \
    note_exchange(word, expected, after, done, CALLER);                                         \
    return done ? 1 : 0;                                                                        \
  }
#define ATOMICS(bits)                                                                             \
  std::uint##bits##_t __tsan_atomic##bits##_load(const volatile std::uint##bits##_t* word, int) { \
    note(word, bits / 8, false, CALLER);                                                          \
    return __atomic_load_n(word, __ATOMIC_SEQ_CST);                                               \
  }                                                                                               \
  void __tsan_atomic##bits##_store(volatile std::uint##bits##_t* word, std::uint##bits##_t value, \
                                   int) {                                                         \
    note(word, bits / 8, true, CALLER);                                                           \
    note_release(word, __atomic_exchange_n(word, value, __ATOMIC_SEQ_CST));                       \
  }                                                                                               \
  std::uint##bits##_t __tsan_atomic##bits##_exchange(volatile std::uint##bits##_t* word,          \
                                                     std::uint##bits##_t value, int) {            \
    note(word, bits / 8, true, CALLER);                                                           \
    const std::uint##bits##_t before = __atomic_exchange_n(word, value, __ATOMIC_SEQ_CST);        \
    note_release(word, before);                                                                   \
    return before;                                                                                \
  }                                                                                               \
  std::uint##bits##_t __tsan_atomic##bits##_compare_exchange_val(                                 \
      volatile std::uint##bits##_t* word, std::uint##bits##_t before, std::uint##bits##_t after,  \
      int, int) {                                                                                 \
    note(word, bits / 8, true, CALLER);                                                           \
    const std::uint##bits##_t expected = before;                                                  \
    const bool done = __atomic_compare_exchange_n(word, &before, after, false, __ATOMIC_SEQ_CST,  \
                                                  __ATOMIC_SEQ_CST);                              \
    note_exchange(word, expected, after, done, CALLER);                                           \
    return before;                                                                                \
  }                                                                                               \
  COMPARE(bits, strong)                                                                           \
  COMPARE(bits, weak)                                                                             \
  FETCH(bits, add)                                                                                \
  FETCH(bits, sub)                                                                                \
  FETCH(bits, and)                                                                                \
  FETCH(bits, or)                                                                                 \
  FETCH(bits, xor)                                                                                \
  FETCH(bits, nand)
ATOMICS(8)
ATOMICS(16)
ATOMICS(32)
ATOMICS(64)

}  // extern "C"
// NOLINTEND(readability-identifier-naming,bugprone-reserved-identifier)
