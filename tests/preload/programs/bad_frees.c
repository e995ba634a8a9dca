// Double frees and frees of pointers that nobody gave out. Each in a child: it must end by a signal
// with at most one line, or go on with every other block intact. A slab's pages must never be given
// out twice.
#include <signal.h>
#include <sys/wait.h>

#include "support.h"

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

// True if the child ended as promised: by SIGABRT, SIGSEGV, SIGBUS or SIGTRAP, or with its blocks
// intact.
static int contained(void (*misuse)(void), int must_end) {
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
  const int as_ours = !serving_expected() || !must_end || (by_signal && lines == 1);
  if (as_ours && (by_signal || went_on) && (lines <= 1 || !on_glibc()))
    return 1;
  dprintf(STDERR_FILENO, "status %x: %s\n", (unsigned)status, text);
  return 0;
}

int main(void) {
  static const struct {
    const char* name;
    void (*misuse)(void);
    int in_slab;
  } rows[] = {
      {"twice in a row", twice_in_a_row, 1},
      {"twice after the place is taken again", twice_after_the_place_is_taken_again, 1},
      {"inside a block", inside_a_block, 1},
      {"unaligned", unaligned, 1},
      {"on the stack", on_the_stack, 0},
      {"realloc of a freed block", realloc_of_a_freed_block, 1},
  };
  setvbuf(stdout, NULL, _IONBF, 0);
  for (unsigned i = 0; i < sizeof rows / sizeof *rows; ++i) {
    CHECK(contained(rows[i].misuse, rows[i].in_slab));
    printf("%s: contained\n", rows[i].name);
  }
  return 0;
}
