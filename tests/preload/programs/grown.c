// Two buffers that grow in turns by realloc, each in the other's way: none of them is ever there twice, as with the
// system's malloc, whose largest blocks move without being copied. What they hold goes along, in a thread, in a
// child, and where their memory is locked.
#include "room.h"

enum { kFirst = 1, kLast = 65 };  // MiB; each time by a quarter, and at least 1

static uint64_t word_of(size_t place, unsigned number) {
  return (place + 1) * 0x9E3779B97F4A7C15u + number;
}
// One word in each KiB of [from, to) MiB.
static void write_words(uint64_t* start, size_t from, size_t to, unsigned number) {
  for (size_t i = from << 10; i < to << 10; ++i)
    start[i * 128] = word_of(i, number);
}
static void check_words(const uint64_t* start, size_t to, unsigned number) {
  for (size_t i = 0; i < to << 10; ++i)
    CHECK(start[i * 128] == word_of(i, number));
}

static void* grow_in_turns(void* unused) {
  uint64_t* both[2];
  for (unsigned i = 0; i < 2; ++i) {
    both[i] = malloc(MIB(kFirst));
    CHECK(both[i] != NULL);
    write_words(both[i], 0, kFirst, i);
  }
  for (size_t size = kFirst, next; size < kLast; size = next) {
    next = size + size / 4 + 1 < kLast ? size + size / 4 + 1 : kLast;
    for (unsigned i = 0; i < 2; ++i) {
      both[i] = realloc(both[i], MIB(next));
      CHECK(both[i] != NULL);
      check_words(both[i], size, i);
      write_words(both[i], size, next, i);
    }
  }
  for (unsigned i = 0; i < 2; ++i) {
    check_words(both[i], kLast, i);
    free(both[i]);
  }
  return unused;
}

int main(void) {
  // Where commitments are counted, both copies of a block that moves are, and what lies free between them.
  if (!has_room(MIB(4 * kLast))) {
    puts("skipped: there is no room for the blocks");
    return 77;
  }
  // The first calls of a process are the underlying allocator's, and what they give grows there.
  for (unsigned i = 0; i < 32; ++i) {
    void* volatile early = malloc(KIB(100));
    CHECK(early != NULL);
    free(early);
  }
  const long before = peak_kib();
  grow_in_turns(NULL);
  // Twice the larger one would be half as much again, as other allocators have it.
  CHECK(memomalloc_version == NULL || peak_kib() - before < 2 * kLast * 1024 / 5 * 6);
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, grow_in_turns, NULL) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
  const pid_t child = fork();
  if (child == 0) {
    grow_in_turns(NULL);
    _exit(0);
  }
  ends_well(child);
  if (mlockall(MCL_CURRENT | MCL_FUTURE) == 0) {
    grow_in_turns(NULL);
    munlockall();
  }
  return 0;
}
