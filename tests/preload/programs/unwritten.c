// What a program asks for and does not write has no memory, as with glibc: blocks that are written
// in part, in loops and once, that shrink, grow, are aligned, or lie in a program that has locked
// what it touches. Each case is a process of its own, whose memory is held against the pages that
// it writes.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "room.h"
#include "support.h"

enum { kPage = 4096, kTimes = 24, kBlocks = 16, kKept = 8 };

// Of memory beyond what is written: a sixteenth of it and 4 MiB; and what an allocator's own tables
// take.
static long allowed_kib(size_t written) {
  return (long)(written / 16 / 1024) + (4 << 10) + (3 << 10);
}

static long before;  // KiB of this process in memory

static long status_kib(const char* name) {
  char text[4096] = {0};
  const int file = open("/proc/self/status", O_RDONLY);
  CHECK(file >= 0 && read(file, text, sizeof text - 1) > 0);
  close(file);
  const char* found = strstr(text, name);
  return found == NULL ? 0 : atol(found + strlen(name));
}

static void allow_files(rlim_t most) {
  struct rlimit limit;
  CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
  limit.rlim_cur = most < limit.rlim_max ? most : limit.rlim_max;
  CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
}

// At most so many bytes are written at once.
static void holds(const char* field, size_t written) {
  allow_files(64);
  const long held = status_kib(field) - before;
  const long most = (long)(written >> 10) + allowed_kib(written);
  if (held > most)
    dprintf(STDERR_FILENO, "%s %ld KiB, %zu KiB are written, at most %ld allowed\n", field, held,
            written >> 10, most);
  CHECK(held <= most);
}

static void write_pages(void* block, size_t from, size_t to) {
  for (size_t at = from; at < to; at += kPage)
    ((volatile char*)block)[at] = 1;
}

// The first 2 MiB of 1 GiB.
static void first_part(void) {
  for (int i = 0; i < 300; ++i) {
    char* block = malloc(MIB(1024));
    CHECK(block != NULL);
    write_pages(block, 0, MIB(2));
    free(block);
  }
  holds("VmHWM:", MIB(2));
}

// Where the program had asked for huge pages of a block before: they were that block's.
static void after_huge(void) {
  char* block = NULL;
  CHECK(posix_memalign((void**)&block, kPage, MIB(64)) == 0);
  madvise(block, MIB(64), MADV_HUGEPAGE);
  write_pages(block, 0, MIB(64));
  free(block);
  block = malloc(MIB(64) + kPage);
  CHECK(block != NULL);
  for (size_t at = 0; at < MIB(64); at += MIB(2))
    write_pages(block, at, at + kPage);
  holds("VmRSS:", MIB(64) / MIB(2) * kPage);
  free(block);
}

// Many blocks, a part of each: columns and lists that are reserved.
static void columns_of(size_t each, size_t part) {
  void* blocks[kBlocks];
  for (int i = 0; i < kTimes; ++i) {
    for (int j = 0; j < kBlocks; ++j) {
      blocks[j] = malloc(each);
      CHECK(blocks[j] != NULL);
      write_pages(blocks[j], 0, part);
    }
    if (i == kTimes - 1)
      holds("VmRSS:", kBlocks * part);
    for (int j = 0; j < kBlocks; ++j)
      free(blocks[j]);
  }
  holds("VmHWM:", 2 * kBlocks * part);  // what a loop is learned in, and what it then has
}
static void columns(void) {
  columns_of(MIB(64), MIB(1));
}
static void short_columns(void) {
  columns_of(MIB(16), KIB(600));
}

// A block written whole beside one that is hardly written.
static void one_of_two(void) {
  for (int i = 0; i < kTimes; ++i) {
    char* whole = malloc(MIB(48));
    char* sparse = malloc(MIB(40));
    CHECK(whole != NULL && sparse != NULL);
    write_pages(whole, 0, MIB(48));
    write_pages(sparse, MIB(20), MIB(21));
    free(sparse);
    free(whole);
  }
  holds("VmHWM:", MIB(49));
}

// A buffer for the worst case, made as large as what came: what is left of it is written whole.
static void shrunk_of(size_t asked, size_t left, int times) {
  void* kept[kKept] = {0};
  for (int i = 0; i < times; ++i) {
    free(kept[i % kKept]);
    char* block = malloc(asked);
    CHECK(block != NULL);
    write_pages(block, 0, left);
    block = realloc(block, left);
    CHECK(block != NULL && block[0] == 1);
    kept[i % kKept] = block;
  }
  holds("VmHWM:", (kKept + 1) * left);
  for (int i = 0; i < kKept; ++i)
    free(kept[i]);
}
static void shrunk(void) {
  shrunk_of(MIB(64), KIB(100), 60 * kTimes);
}
static void shrunk_far(void) {
  shrunk_of(MIB(1024), MIB(2), 3 * kTimes);
}

// An aligned table beside what is written whole. Where huge pages are for all who can have them,
// they are the system's.
static void aligned_table(void) {
  void* beside[16];
  for (int i = 0; i < 16; ++i) {
    beside[i] = aligned_alloc(64, MIB(4));
    CHECK(beside[i] != NULL);
    memset(beside[i], 1, MIB(4));
  }
  char* table = aligned_alloc(64, MIB(1024));
  CHECK(table != NULL);
  for (size_t at = 0; at < MIB(1024); at += MIB(1))
    table[at] = 1;
  holds("VmHWM:", MIB(64) + MIB(1024) / MIB(1) * kPage);
  CHECK(table[0] == 1);
  free(table);
  for (int i = 0; i < 16; ++i)
    free(beside[i]);
}

// Grown in turns, so that none grows in place.
static void grown_in_turns(void) {
  enum { kGrown = 3, kTurns = 8 };
  char* blocks[kGrown];
  for (int i = 0; i < kGrown; ++i) {
    blocks[i] = malloc(MIB(512));
    CHECK(blocks[i] != NULL);
    write_pages(blocks[i], MIB(100), MIB(101));
    blocks[i][MIB(100)] = (char)(i + 1);
  }
  for (size_t turn = 1; turn <= kTurns; ++turn)
    for (int i = 0; i < kGrown; ++i) {
      blocks[i] = realloc(blocks[i], MIB(512) + turn * MIB(32));
      CHECK(blocks[i] != NULL && blocks[i][MIB(100)] == i + 1 && blocks[i][MIB(101) - kPage] == 1);
    }
  holds("VmHWM:", kGrown * MIB(1));
  for (int i = 0; i < kGrown; ++i)
    free(blocks[i]);
}

// Short blocks, written whole and kept, with more behind each that is not written: it grows in
// place, or the next one is aligned.
static void short_grown(void) {
  for (int i = 0; i < 10 * kTimes; ++i) {
    char* block = malloc(KIB(68));
    CHECK(block != NULL);
    write_pages(block, 0, KIB(68));
    CHECK(realloc(block, MIB(2)) != NULL);
  }
  holds("VmHWM:", (size_t)10 * kTimes * KIB(72));
}
static void short_aligned(void) {
  for (int i = 0; i < 50 * kTimes; ++i) {
    char* block = aligned_alloc(MIB(1), KIB(68));
    CHECK(block != NULL);
    write_pages(block, 0, KIB(68));
  }
  holds("VmHWM:", (size_t)50 * kTimes * KIB(72));
}

// Grown until it is too large for the library: the underlying allocator has it then.
static void grown_out(void) {
  const struct rlimit limit = {MIB(4096), MIB(4096)};
  CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
  for (int i = 0; i < kTimes; ++i) {
    void* block = malloc(MIB(1));
    CHECK(block != NULL);
    free(block);
  }
  size_t bytes = MIB(64);
  char* block = malloc(bytes);
  CHECK(block != NULL);
  write_pages(block, MIB(40), MIB(41));
  for (; bytes < MIB(1024); bytes += MIB(32)) {
    block = realloc(block, bytes + MIB(32));
    CHECK(block != NULL && block[MIB(40)] == 1 && block[MIB(41) - kPage] == 1);
  }
  holds("VmHWM:", MIB(1));
  free(block);
}

// What was zero stays so, wherever the block lies.
static void grown_zeros(void) {
  for (int i = 0; i < kTimes; ++i) {
    char* dirty = malloc(MIB(20));
    char* block = calloc(1, MIB(12));
    CHECK(dirty != NULL && block != NULL);
    memset(dirty, 7, MIB(20));
    block[MIB(5)] = 3;
    free(dirty);
    char* wall = malloc(MIB(1));
    CHECK(wall != NULL);
    block = realloc(block, MIB(19));
    CHECK(block != NULL && block[MIB(5)] == 3);
    CHECK(all_zero(block, MIB(5)) && all_zero(block + MIB(5) + 1, MIB(7) - 1));
    free(wall);
    free(block);
  }
}

// Other pages each time, as of a hash table: in the end each of them was written once.
static void other_pages(void) {
  unsigned random = 1;
  for (int i = 0; i < 40 * kTimes / 4; ++i) {
    char* table = malloc(MIB(64));
    char* beside = malloc(MIB(2));
    CHECK(table != NULL && beside != NULL);
    memset(beside, 1, MIB(2));
    for (int j = 0; j < 256; ++j) {
      random = random * 1664525u + 1013904223u;
      table[(size_t)(random >> 18) * kPage] = 1;
    }
    free(beside);
    free(table);
  }
  holds("VmHWM:", MIB(3));
}

// Zeros are read, and written here and there.
static void zeroed_table(void) {
  for (int i = 0; i < kTimes; ++i) {
    char* table = calloc(1, MIB(96));
    CHECK(table != NULL);
    for (size_t at = 0; at < MIB(96); at += MIB(2)) {
      CHECK(table[at] == 0);
      table[at] = 1;
    }
    free(table);
  }
  holds("VmHWM:", MIB(1));
}

// A program that runs once: blocks of other sizes each time, each written whole, of which at most
// three are there at once. Zeros that are only read, for which the kernel lends one page.
static void read_zeros(void) {
  for (int i = 0; i < kTimes; ++i) {
    char* block = calloc(1, MIB(128));
    CHECK(block != NULL);
    for (size_t at = 0; at < MIB(128); at += kPage)
      CHECK(((volatile char*)block)[at] == 0);
    free(block);
  }
  holds("VmHWM:", 0);
}

static void once(void) {
  enum { kAlive = 3, kOnce = 24 };
  char* alive[kAlive] = {0};
  size_t sizes[kAlive] = {0};
  size_t most = 0;
  for (unsigned i = 0; i < kOnce; ++i) {
    const size_t size = i % 3 == 2 ? MIB(34) : MIB(34) + (i * 7 % 13) * KIB(900);
    free(alive[i % kAlive]);
    alive[i % kAlive] = malloc(size);
    sizes[i % kAlive] = size;
    CHECK(alive[i % kAlive] != NULL);
    write_pages(alive[i % kAlive], 0, size);
    size_t sum = 0;
    for (int j = 0; j < kAlive; ++j)
      sum += sizes[j];
    most = sum > most ? sum : most;
  }
  const long held = status_kib("VmHWM:") - before;
  const long allowed = (long)(most >> 10) / 50 + (3 << 10);
  if (held > (long)(most >> 10) + allowed)
    dprintf(STDERR_FILENO, "%ld KiB, %zu KiB are written\n", held, most >> 10);
  CHECK(held <= (long)(most >> 10) + allowed);
  for (int j = 0; j < kAlive; ++j)
    free(alive[j]);
}

// No descriptor is left, so that nobody can look into /proc, as in a program that has changed its
// root.
static void grown_without_files(void) {
  allow_files(0);
  grown_in_turns();
}
static void other_pages_without_files(void) {
  allow_files(0);
  other_pages();
}

// Locked as it is touched.
static void locked_on_fault(void) {
  if (mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT) != 0)
    return;  // the limit does not allow it
  before = status_kib("VmRSS:");
  char* blocks[4];
  for (int i = 0; i < 4; ++i) {
    blocks[i] = malloc(MIB(128));
    if (blocks[i] == NULL)
      return;  // nor this
    blocks[i][MIB(3)] = 1;
  }
  holds("VmRSS:", 4 * kPage);
}

static const struct part kParts[] = {
    {"first_part", first_part},
    {"after_huge", after_huge},
    {"columns", columns},
    {"short_columns", short_columns},
    {"one_of_two", one_of_two},
    {"shrunk", shrunk},
    {"shrunk_far", shrunk_far},
    {"aligned_table", aligned_table},
    {"grown_in_turns", grown_in_turns},
    {"short_grown", short_grown},
    {"short_aligned", short_aligned},
    {"grown_out", grown_out},
    {"grown_zeros", grown_zeros},
    {"other_pages", other_pages},
    {"zeroed_table", zeroed_table},
    {"read_zeros", read_zeros},
    {"once", once},
    {"grown_without_files", grown_without_files},
    {"other_pages_without_files", other_pages_without_files},
    {"locked_on_fault", locked_on_fault},
};

int main(int count, char** words) {
  end_after(200);
  before = status_kib("VmRSS:");
  return run_parts(count, words, kParts, sizeof kParts / sizeof kParts[0]);
}
