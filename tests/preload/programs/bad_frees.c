// Double frees and frees of pointers that nobody gave out. Each in a child: it must end by a signal
// with at most one line, or go on with every other block intact. A slab's pages must never be given
// out twice.
#include <malloc.h>
#include <signal.h>
#include <sys/wait.h>

#include "support.h"

extern void free_sized(void* block, size_t size) __attribute__((weak));
extern void free_aligned_sized(void* block, size_t alignment, size_t size) __attribute__((weak));

static void* blocks[kStepCount];

static void twice_in_a_row(void) {
  free(blocks[1]);
  free(blocks[1]);
}

static void twice_after_the_place_is_taken_again(void) {
  free(blocks[1]);
  free(blocks[2]);
  void* again = malloc(step_size(1));
  CHECK(again != NULL);
  free(blocks[2]);
}

static void inside_a_block(void) {
  free((char*)blocks[2] + KIB(32));
}

static void unaligned(void) {
  free((char*)blocks[2] + 1);
}

static void on_the_stack(void) {
  static volatile long array[64];
  free((void*)&array[8]);
}

static void realloc_of_a_freed_block(void) {
  free(blocks[3]);
  void* block = realloc(blocks[3], MIB(1));
  free(block);
}

static void in_pages_freed_before(void) {
  free(blocks[2]);
  free((char*)blocks[2] + KIB(8));
}

static void usable_size_inside_a_block(void) {
  malloc_usable_size((char*)blocks[2] + KIB(4));
}

// The C library has no sized frees yet; then a plain free stands in.
static void sized_free_with_less(void) {
  if (free_sized)
    free_sized(blocks[3], step_size(3) / 3);
}

static void sized_free_with_more(void) {
  if (free_sized)
    free_sized(blocks[3], step_size(3) + KIB(64));
}

static void sized_free_with_another_alignment(void) {
  void* block = NULL;
  CHECK(posix_memalign(&block, 4096, MIB(3)) == 0);
  if (free_aligned_sized)
    free_aligned_sized((char*)block, (size_t)1 << 40, MIB(3));
}

// In the pool: a size that the loop does not have.
static void twice_in_the_pool(void) {
  void* block = malloc(MIB(3));
  CHECK(block != NULL);
  free(block);
  free(block);
}

static void behind_a_block_of_the_pool(void) {
  char* block = malloc(MIB(3) + 1);
  CHECK(block != NULL);
  free(block + MIB(3));
}

static void small_and_aligned_twice(void) {
  void* mine[4];
  for (int i = 0; i < 4; ++i)
    CHECK(posix_memalign(&mine[i], 64, 600) == 0);
  for (int i = 0; i < 4; ++i)
    free(mine[i]);
  free(mine[1]);
}

// True if the line tells all that there is to tell: the function, the pointer, this thread, and
// `says`.
static int tells(const char* line, pid_t thread, const char* says) {
  char by[64];
  snprintf(by, sizeof by, " by thread %d: ", (int)thread);
  return strncmp(line, "memomalloc: ", 12) == 0 && strstr(line, "pointer 0x") != NULL &&
         strstr(line, by) != NULL && strstr(line, says) != NULL;
}

// True if the child ended as promised: by SIGABRT, SIGSEGV, SIGBUS or SIGTRAP, or with its blocks
// intact.
static int contained(void (*misuse)(void), const char* says) {
  int said[2];
  CHECK(pipe(said) == 0);
  const pid_t child = fork();
  if (child == 0) {
    dup2(said[1], STDERR_FILENO);
    learn_steps();
    take_steps(blocks);
    misuse();
    // Still here: what was not misused must be whole, and new blocks must not overlap the old.
    void* others[kStepCount];
    take_steps(others);
    CHECK(filled(blocks[0], step_size(0), 0) && filled(blocks[4], step_size(4), 4));
    CHECK(filled(blocks[5], step_size(5), 5));
    free_steps(others);
    _exit(0);
  }
  close(said[1]);
  char text[2000];
  size_t length = 0;
  ssize_t got = 0;
  while ((got = read(said[0], text + length, sizeof text - 1 - length)) > 0)
    length += (size_t)got;
  text[length] = 0;
  close(said[0]);
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child);
  int lines = 0;
  for (size_t i = 0; i < length; ++i)
    lines += text[i] == '\n';
  lines -= getenv("RUN_UNDER") && strstr(text, "qemu: ") != NULL;  // the emulator's own line
  const int by_signal =
      WIFSIGNALED(status) && (WTERMSIG(status) == SIGABRT || WTERMSIG(status) == SIGSEGV ||
                              WTERMSIG(status) == SIGBUS || WTERMSIG(status) == SIGTRAP);
  const int went_on = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  // Other allocators may print more than a line.
  // A block of a slab is ours to judge: one line, and the end.
  const int as_ours =
      !serving_expected() || says == NULL || (by_signal && lines == 1 && tells(text, child, says));
  if (as_ours && (by_signal || went_on) && (lines <= 1 || !on_glibc()))
    return 1;
  dprintf(STDERR_FILENO, "status %x: %s\n", (unsigned)status, text);
  return 0;
}

int main(void) {
  static const struct {
    const char* name;
    void (*misuse)(void);
    const char* says;  // of a block of ours
  } rows[] = {
      {"twice in a row", twice_in_a_row, ", which is free already"},
      {"twice after the place is taken again", twice_after_the_place_is_taken_again,
       ", which is free already"},
      {"inside a block", inside_a_block, "it lies 32768 bytes into a block of "},
      {"unaligned", unaligned, "it lies 1 bytes into a block of "},
      {"on the stack", on_the_stack, NULL},
      {"realloc of a freed block", realloc_of_a_freed_block, ", which is free already"},
      {"in pages freed before", in_pages_freed_before, "invalid pointer"},
      {"usable size inside a block", usable_size_inside_a_block, "it lies 4096 bytes into"},
      {"sized free with less", sized_free_with_less, " bytes, but it is a block of "},
      {"sized free with more", sized_free_with_more, "in the slab of lane 0, in use"},
      {"sized free with another alignment", sized_free_with_another_alignment,
       "wrong alignment for pointer"},
      {"twice in the pool", twice_in_the_pool, "freed pointer"},
      {"behind a block of the pool", behind_a_block_of_the_pool,
       "it lies 3145728 bytes into a block of 3149824 bytes"},
      {"small and aligned, twice", small_and_aligned_twice, NULL},
  };
  setvbuf(stdout, NULL, _IONBF, 0);
  for (unsigned i = 0; i < sizeof rows / sizeof *rows; ++i) {
    CHECK(contained(rows[i].misuse, rows[i].says));
    printf("%s: contained\n", rows[i].name);
  }
  return 0;
}
