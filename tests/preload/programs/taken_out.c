// A program that unmaps a part of its block, moves one away, or has something else come there, and frees the block then.
// The next blocks are whole, and nothing that others have mapped meanwhile is touched.
#define _GNU_SOURCE
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/shm.h>

#include "room.h"
#include "support.h"

#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif

enum { kRounds = 2, kAtOnce = 3 };
static size_t page_size;
static const size_t kSizes[] = {KIB(256), MIB(1), MIB(9), MIB(33)};
enum { kSizesCount = sizeof kSizes / sizeof kSizes[0] };

// From 32 MiB on glibc maps each block by itself; of smaller ones its heap keeps what was done to it. Other allocators keep
// it of all.
static size_t first_size(void) {
  return serving_expected() ? 0 : on_glibc() ? 3 : kSizesCount;
}

static char* aligned(size_t bytes) {
  void* block = NULL;
  CHECK(posix_memalign(&block, page_size, bytes) == 0);
  fill(block, bytes, 1);
  return block;
}

// Whole pages in the middle of a block.
static char* middle(char* block, size_t bytes) {
  return block + bytes / 4 / page_size * page_size;
}
static size_t middle_bytes(size_t bytes) {
  return (bytes / 2 + page_size - 1) / page_size * page_size;
}

static char* map(size_t bytes) {
  char* start = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(start != MAP_FAILED);
  fill(start, bytes, 7);
  return start;
}

// Rounds of blocks of all sizes, of which each is changed and freed, and then taken once more; some mappings come and stay
// meanwhile.
static void in_rounds(void (*change)(char* block, size_t bytes)) {
  for (int round = 0; round < kRounds; ++round)
    for (size_t i = first_size(); i < kSizesCount; ++i) {
      char* between[kAtOnce];
      char* block = aligned(kSizes[i]);
      change(block, kSizes[i]);
      for (unsigned k = 0; k < kAtOnce && serving_expected(); ++k)
        between[k] = map(middle_bytes(kSizes[i]));
      free(block);
      block = aligned(kSizes[i]);
      CHECK(filled(block, kSizes[i], 1));
      for (unsigned k = 0; k < kAtOnce && serving_expected(); ++k) {
        CHECK(filled(between[k], middle_bytes(kSizes[i]), 7));
        CHECK(munmap(between[k], middle_bytes(kSizes[i])) == 0);
      }
      free(block);
    }
}

static void is_whole_but(const char* block, size_t bytes, const char* gone, size_t gone_bytes) {
  CHECK(filled(block, (size_t)(gone - block), 1));
  CHECK(filled(gone + gone_bytes, (size_t)(block + bytes - gone) - gone_bytes, 1));
}

static void unmap_middle(char* block, size_t bytes) {
  char* const from = middle(block, bytes);
  CHECK(munmap(from, middle_bytes(bytes)) == 0);
  is_whole_but(block, bytes, from, middle_bytes(bytes));
}
static void unmap_end(char* block, size_t bytes) {
  CHECK(munmap(block + bytes - page_size, page_size - 1) == 0);  // the kernel takes whole pages
  CHECK(filled(block, bytes - page_size, 1));
}
static void unmap_twice(char* block, size_t bytes) {
  unmap_middle(block, bytes);
  CHECK(munmap(middle(block, bytes), page_size) == 0);
}
// What is not there is no block's, and a second look sees it.
static void unmap_and_map(char* block, size_t bytes) {
  unmap_middle(block, bytes);
  CHECK(mmap(middle(block, bytes), page_size, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == middle(block, bytes));
  CHECK(all_zero(middle(block, bytes), page_size));
}

static void move_middle(char* block, size_t bytes) {
  char* const from = middle(block, bytes);
  const size_t moved = middle_bytes(bytes);
  char* to = mremap(from, moved, 2 * moved, MREMAP_MAYMOVE);
  CHECK(to != MAP_FAILED && (to + 2 * moved <= block || block + bytes <= to));
  CHECK(filled(to, moved, 1) && all_zero(to + moved, moved));
  is_whole_but(block, bytes, from, moved);
  CHECK(munmap(to, 2 * moved) == 0);
}
static void move_to_place(char* block, size_t bytes) {
  char* const from = middle(block, bytes);
  const size_t moved = middle_bytes(bytes);
  char* const place = map(moved);
  CHECK(mremap(from, moved, moved - page_size, MREMAP_MAYMOVE | MREMAP_FIXED, place) == place);
  CHECK(filled(place, moved - page_size, 1));
  is_whole_but(block, bytes, from, moved);
  CHECK(munmap(place, moved) == 0);
}
static void move_whole(char* block, size_t bytes) {
  char* const to = mremap(block, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, map(bytes));
  CHECK(to != MAP_FAILED && filled(to, bytes, 1) && munmap(to, bytes) == 0);
}
// Linux 5.7
static void leave_mapped(char* block, size_t bytes) {
  char* const from = middle(block, bytes);
  const size_t moved = middle_bytes(bytes);
  char* const to = mremap(from, moved, moved, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, NULL);
  if (to == MAP_FAILED)
    return;
  CHECK(filled(to, moved, 1) && all_zero(from, moved));
  is_whole_but(block, bytes, from, moved);
  CHECK(munmap(to, moved) == 0);
}
static void shrink_middle(char* block, size_t bytes) {
  char* const from = middle(block, bytes);
  CHECK(mremap(from, middle_bytes(bytes), page_size, 0) == from);
  CHECK(filled(block, (size_t)(from - block) + page_size, 1));
}
static void fail_to_move(char* block, size_t bytes) {
  char* const from = middle(block, bytes);
  errno = 0;
  CHECK(mremap(from, middle_bytes(bytes), bytes, 0) == MAP_FAILED && errno == ENOMEM);
  CHECK(mremap(from + 1, page_size, bytes, MREMAP_MAYMOVE) == MAP_FAILED && errno == EINVAL);
  CHECK(mremap(from, page_size, page_size, MREMAP_MAYMOVE | MREMAP_FIXED, from) == MAP_FAILED &&
        errno == EINVAL);
  CHECK(munmap(from + 1, page_size) == -1 && errno == EINVAL);
  CHECK(munmap(from, 0) == -1 && errno == EINVAL);
  CHECK(munmap(from, SIZE_MAX - page_size) == -1 && errno == EINVAL);
  CHECK(munmap(from, SIZE_MAX / 4) == -1 && errno == EINVAL);
  CHECK(filled(block, bytes, 1));
}
static void move_onto(char* block, size_t bytes) {
  char* const onto = middle(block, bytes);
  char* const other = map(page_size);
  CHECK(mremap(other, page_size, page_size, MREMAP_MAYMOVE | MREMAP_FIXED, onto) == onto);
  CHECK(filled(onto, page_size, 7));
  is_whole_but(block, bytes, onto, page_size);
}
// A block with a segment in it stays in use for good: no large one where there is no memory for it.
static int has_much;
static void attach(char* block, size_t bytes) {
  if (bytes > MIB(9) && !has_much)
    return;
  char* const onto = middle(block, bytes);
  const int segment = shmget(IPC_PRIVATE, page_size, IPC_CREAT | 0600);
  if (segment < 0)
    return;  // not here
  CHECK(shmat(segment, onto, SHM_REMAP) == onto && all_zero(onto, page_size));
  CHECK(shmctl(segment, IPC_RMID, NULL) == 0);
  is_whole_but(block, bytes, onto, page_size);
  CHECK(shmdt(onto) == 0);
}

static void unmapped(void) {
  in_rounds(unmap_middle);
  in_rounds(unmap_end);
  in_rounds(unmap_twice);
  in_rounds(unmap_and_map);
}
static void moved(void) {
  in_rounds(move_middle);
  in_rounds(move_to_place);
  in_rounds(move_whole);
  in_rounds(leave_mapped);
  in_rounds(shrink_middle);
  in_rounds(move_onto);
}
// Where so much is alive some of it comes in huge pages, and a block may be several mappings to the kernel.
static void moved_beside_much(void) {
  char* const kept = aligned(MIB(48));
  for (size_t i = 0; i < 6 && first_size() < kSizesCount; ++i) {
    const size_t bytes = MIB(33) + i * KIB(320);  // whole pages, however large
    char* const block = aligned(bytes);
    char* to = mremap(block, bytes, bytes + MIB(1), MREMAP_MAYMOVE);
    CHECK(to != MAP_FAILED && filled(to, bytes, 1) && all_zero(to + bytes, MIB(1)));
    CHECK(munmap(to, bytes + MIB(1)) == 0);
    free(block);
    const size_t sizes[] = {MIB(32), bytes + MIB(1)};
    for (size_t k = 0; k < 2; ++k) {
      char* const other = aligned(bytes);
      to = map(bytes + MIB(1));
      CHECK(mremap(other, bytes, sizes[k], MREMAP_MAYMOVE | MREMAP_FIXED, to) == to);
      CHECK(filled(to, k == 0 ? sizes[k] : bytes, 1));
      free(other);
      CHECK(munmap(to, bytes + MIB(1)) == 0);
    }
  }
  CHECK(filled(kept, MIB(48), 1));
  free(kept);
}
static void refused(void) {
  in_rounds(fail_to_move);
}
static void attached(void) {
  has_much = has_memory(MIB(256), KIB(4));
  in_rounds(attach);
}

// Nothing of the process comes where a part of an alive block was unmapped or moved away, even where it likes to.
static void stays_empty(void) {
  void (*const kChanges[])(char* block, size_t bytes) = {unmap_middle, move_middle, shrink_middle};
  for (size_t i = 0; i < 3 && serving_expected(); ++i) {
    char* const block = aligned(MIB(33));
    kChanges[i](block, MIB(33));
    char* const wished = middle(block, MIB(33)) + MIB(1) / page_size * page_size;
    char* const other = mmap(wished, page_size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(other != MAP_FAILED && other != wished);
    free(block);
  }
}

// Another thread's mappings come and go while parts of blocks are moved away.
static atomic_int done;
static void* map_and_unmap(void* bytes) {
  while (!done) {
    char* const own = map((size_t)bytes);
    CHECK(filled(own, (size_t)bytes, 7));
    CHECK(munmap(own, (size_t)bytes) == 0);
  }
  return NULL;
}
static void among_others(void) {
  pthread_t others[2];
  if (!serving_expected())
    return;  // glibc frees what has come into the hole
  for (size_t i = 0; i < 2; ++i)
    CHECK(pthread_create(&others[i], NULL, map_and_unmap, (void*)KIB(256)) == 0);
  for (unsigned i = 0; i < repeated(400, 40); ++i) {
    char* block = aligned(MIB(1));
    if (i % 2 == 0)
      move_middle(block, MIB(1));
    else
      unmap_middle(block, MIB(1));
    free(block);
    block = aligned(MIB(1));
    CHECK(filled(block, MIB(1), 1));
    free(block);
  }
  done = 1;
  for (size_t i = 0; i < 2; ++i)
    CHECK(pthread_join(others[i], NULL) == 0);
}

// Also of blocks that a plan has placed; the loop goes on.
static void in_a_loop(void) {
  void* blocks[kStepCount];
  learn_steps();
  for (unsigned round = 0; round < 30; ++round) {
    take_steps(blocks);
    if (round % 3 == 0 && serving_expected()) {
      char* const from =
          (char*)(((uintptr_t)blocks[round % kStepCount] + page_size - 1) / page_size * page_size);
      CHECK(munmap(from, page_size) == 0);
      for (unsigned i = 0; i < kStepCount; ++i)
        free(blocks[i]);
    } else {
      free_steps(blocks);
    }
  }
  take_steps(blocks);
  free_steps(blocks);
}

static const struct part kParts[] = {{"unmapped", unmapped},
                                     {"moved", moved},
                                     {"moved_beside_much", moved_beside_much},
                                     {"refused", refused},
                                     {"attached", attached},
                                     {"stays_empty", stays_empty},
                                     {"among_others", among_others},
                                     {"in_a_loop", in_a_loop}};

int main(int count, char** words) {
  end_after(200);
  page_size = (size_t)sysconf(_SC_PAGESIZE);
  learn_steps();  // the first large blocks of a process are glibc's
  return run_parts(count, words, kParts, sizeof kParts / sizeof kParts[0]);
}
