// Random programs beside a model that follows the pages that they write: a page has memory or has
// none, by what the program has done. Blocks that are written in part, shrink, grow, are aligned,
// zeroed, in loops and once. At each iteration's end the process holds no more than the model at
// its peak, or than an iteration of the loop has written, and the bound. A failure prints its seed;
// SEED in the environment repeats it.
//
// The model has the kernel's pages of 4 KiB. It does not run where larger ones are pretended: the
// library gives back larger pages alone, so that it may keep a whole one for each page of the
// model, and the kernel's count tells nothing of these. Nothing is held to the bound where huge
// pages are for all who can have them: the kernel may give 2 MiB for each page of the model.
#include <fcntl.h>
#include <time.h>

#include "support.h"

enum { kPage = 4096, kMost = 24, kIterations = 20 };

static unsigned random_state;
static unsigned next_random(unsigned below) {
  random_state = random_state * 1664525u + 1013904223u;
  return (unsigned)(((unsigned long long)(random_state >> 8) * below) >> 24);
}

static long rss_kib(void) {
  char text[128] = {0};
  const int file = open("/proc/self/statm", O_RDONLY);
  CHECK(file >= 0 && read(file, text, sizeof text - 1) > 0);
  close(file);
  return atol(strchr(text, ' ')) * 4;
}

// A step of a program: a block of `bytes`, of which pages [from, from + pages * stride) are
// written.
struct step {
  size_t bytes, alignment, from, stride, changed;  // `changed`: by realloc, 0: not
  unsigned pages, lives;
  int zeroed, moves;  // `moves`: other pages each time
};
struct block {
  char* start;
  size_t bytes;
  unsigned until;
  unsigned char* written;  // a bit for each page, in memory of the test's own
};

static size_t held, peak;  // pages, of the model
static size_t written;     // in this iteration

// Where the kernel refuses what could not all be written at once, a block may not be to be had: how
// much is asked for at once depends on the seed.
static int may_be_refused(void) {
  char mode = '0';
  const int file = open("/proc/sys/vm/overcommit_memory", O_RDONLY);
  CHECK(file >= 0 && read(file, &mode, 1) == 1);
  close(file);
  return mode == '2';
}

static int is_set(const struct block* block, size_t page) {
  return block->written[page / 8] >> page % 8 & 1;
}

static void write_page(struct block* block, size_t page) {
  block->start[page * kPage] = (char)(page + 1);
  if (!is_set(block, page)) {
    block->written[page / 8] |= (unsigned char)(1 << page % 8);
    ++held;
    ++written;
    peak = held > peak ? held : peak;
  }
}

static void check_pages(const struct block* block) {
  for (size_t page = 0; page < block->bytes / kPage; page += 1 + page / 16)
    if (is_set(block, page))
      CHECK(block->start[page * kPage] == (char)(page + 1));
}

static void end_block(struct block* block) {
  if (block->start == NULL)
    return;
  check_pages(block);
  for (size_t page = 0; page < block->bytes / kPage; ++page)
    held -= (size_t)is_set(block, page);
  free(block->start);
  munmap(block->written, MIB(512) / kPage / 8);
  block->start = NULL;
}

static void begin_block(struct block* block, const struct step* step) {
  block->bytes = step->bytes;
  block->written =
      mmap(NULL, MIB(512) / kPage / 8, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(block->written != MAP_FAILED);
  block->start = step->zeroed           ? calloc(1, step->bytes)
                 : step->alignment != 0 ? aligned_alloc(step->alignment, step->bytes)
                                        : malloc(step->bytes);
  if (block->start == NULL) {
    CHECK(may_be_refused());
    munmap(block->written, MIB(512) / kPage / 8);
    return;
  }
  const size_t all = step->bytes / kPage;
  for (unsigned i = 0; i < step->pages; ++i) {
    const size_t page =
        step->moves ? next_random((unsigned)all) : (step->from + i * step->stride) % all;
    if (step->zeroed && !is_set(block, page))
      CHECK(all_zero(block->start + page * kPage, kPage));
    write_page(block, page);
  }
  if (step->changed != 0) {
    char* const changed = realloc(block->start, step->changed);
    if (changed == NULL) {
      CHECK(may_be_refused());
      return;
    }
    block->start = changed;
    for (size_t page = step->changed / kPage; page < all; ++page)
      held -= (size_t)is_set(block, page);
    for (size_t page = step->changed / kPage; page < all; ++page)
      block->written[page / 8] &= (unsigned char)~(1 << page % 8);
    block->bytes = step->changed;
    check_pages(block);
  }
}

static size_t random_size(void) {
  static const size_t kAbout[] = {KIB(64), KIB(256), MIB(1), MIB(4), MIB(16), MIB(64), MIB(200)};
  const size_t about = kAbout[next_random(7)];
  return (about + next_random((unsigned)(about / kPage)) * kPage) / kPage * kPage;
}

static struct step random_step(void) {
  struct step step = {.bytes = random_size(),
                      .stride = 1 + next_random(3) * next_random(40),
                      .lives = next_random(6)};
  const size_t all = step.bytes / kPage;
  // Whole, in part, or hardly.
  const unsigned most = next_random(3) == 0 ? 4096 : 64;
  step.pages = 1 + next_random((unsigned)(all < most ? all : most));
  if (next_random(3) == 0 && all <= 4096) {
    step.pages = (unsigned)all;
    step.stride = 1;
  }
  step.from = next_random((unsigned)all);
  step.zeroed = next_random(4) == 0;
  step.alignment = !step.zeroed && next_random(3) == 0 ? (next_random(2) ? 64 : kPage) : 0;
  step.moves = next_random(8) == 0;
  if (next_random(6) == 0)
    step.changed = next_random(2) ? step.bytes + MIB(1) * (1 + next_random(20))
                                  : (step.bytes / 8 + kPage) / kPage * kPage;
  return step;
}

// The greatest excess of an iteration, KiB.
static long run(int loops) {
  struct step steps[kMost];
  struct block blocks[kMost] = {0};
  const unsigned count = 4 + next_random(kMost - 4);
  for (unsigned i = 0; i < count; ++i)
    steps[i] = random_step();
  const long before = rss_kib();
  long excess = 0;
  peak = held = 0;
  unsigned now = 0;
  for (unsigned iteration = 0; iteration < kIterations; ++iteration) {
    written = 0;
    for (unsigned i = 0; i < count; ++i, ++now) {
      if (!loops && iteration != 0)
        steps[i] = random_step();
      for (unsigned j = 0; j < count; ++j)
        if (blocks[j].start != NULL && blocks[j].until <= now)
          end_block(&blocks[j]);
      end_block(&blocks[i]);
      begin_block(&blocks[i], &steps[i]);
      blocks[i].until = now + steps[i].lives;
    }
    // A loop's places may be others for blocks that are not there at once, where these are written
    // in part.
    peak = loops && written > peak ? written : peak;
    const long over = rss_kib() - before - (long)(peak * 4);
    excess = over > excess ? over : excess;
  }
  for (unsigned i = 0; i < count; ++i)
    end_block(&blocks[i]);
  CHECK(held == 0);
  return excess;
}

// A process for each program, so that none has another's memory.
static long in_child(unsigned seed, int loops, long* peak_kib) {
  int ends[2];
  long found[2] = {-1, 0};
  CHECK(pipe(ends) == 0);
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    random_state = seed;
    found[0] = run(loops);
    found[1] = (long)(peak * 4);
    CHECK(write(ends[1], found, sizeof found) == sizeof found);
    _exit(0);
  }
  close(ends[1]);
  const ssize_t got = read(ends[0], found, sizeof found);
  close(ends[0]);
  ends_well_within(child, 60);
  CHECK(got == sizeof found);
  *peak_kib = found[1];
  return found[0];
}

static int gets_huge_pages_unasked(void) {
  char line[64] = "";
  FILE* const file = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "r");
  if (file != NULL) {
    CHECK(fgets(line, sizeof line, file) != NULL);
    fclose(file);
  }
  return strstr(line, "[always]") != NULL;
}

int main(void) {
  const int bounded = serving_expected() && !gets_huge_pages_unasked();
  const char* told = getenv("SEED");
  const unsigned seed = told != NULL ? (unsigned)atol(told) : (unsigned)time(NULL);
  const unsigned times = told != NULL                  ? 1
                         : times_told("PROGRAMS") != 1 ? times_told("PROGRAMS")
                                                       : repeated(12, 2);
  long most[2] = {0, 0};
  for (unsigned i = 0; i < times; ++i)
    for (int loops = 0; loops < 2; ++loops) {
      long written = 0;
      const long excess = in_child(seed + i, loops, &written);
      most[loops] = excess > most[loops] ? excess : most[loops];
      // A quarter of what is written and 12 MiB: the library's bound (a sixteenth, and 4 MiB at
      // most), its tables, and what the pool keeps of blocks whose size it has not seen freed. In a
      // loop once more what it writes: where it has just got its slab, the pool has that, too, and
      // a block that is moved brings along what its place had. Another allocator is not held to
      // it.
      const long bound = written / 4 + (12 << 10) + (loops ? written : 0);
      if (bounded && excess > bound) {
        dprintf(STDERR_FILENO, "seed %u, %s: %ld KiB more than the %ld KiB that are written\n",
                seed + i, loops ? "in a loop" : "in no loop", excess, written);
        _exit(1);
      }
    }
  if (getenv("TELL") != NULL)
    dprintf(STDERR_FILENO, "seeds %u to %u: at most %ld KiB in loops, %ld KiB in none\n", seed,
            seed + times - 1, most[1], most[0]);
  printf("ok\n");
  return 0;
}
