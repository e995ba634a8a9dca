// Children of fork() that wait, as workers do between tasks: none holds a copy of what was free in its parent, whatever the
// parent does meanwhile, and each has all that was in use, be it in threads that it does not have.
#define _GNU_SOURCE
#include <sys/syscall.h>

#include "room.h"
#include "support.h"

enum { kBlocks = 8, kChildren = 4, kThreads = 3, kSlots = 6 };

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

// The kernel can leave memory out of a fork: since Linux 4.14, and not under an emulator of single processes.
static int leaves_memory_out(void) {
  char* page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(page != MAP_FAILED);
  *page = 1;
  const int advised = madvise(page, 4096, MADV_WIPEONFORK) == 0;
  const pid_t child = fork();
  if (child == 0)
    _exit(*page);
  int status = 0;
  CHECK(child > 0 && waitpid(child, &status, 0) == child);
  munmap(page, 4096);
  return advised && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void iterate(size_t each) {
  void* blocks[kBlocks];
  for (unsigned i = 0; i < kBlocks; ++i)
    blocks[i] = malloc(each + i * KIB(8));
  fill_check_free(blocks, kBlocks, each);
}

// Of private memory.
static long held_kib(pid_t process) {
  char path[64], line[256];
  snprintf(path, sizeof path, "/proc/%d/smaps", (int)process);
  FILE* maps = fopen(path, "r");
  CHECK(maps != NULL);
  long sum = 0, one = 0;
  while (fgets(line, sizeof line, maps) != NULL)
    if (sscanf(line, "Private_Dirty: %ld", &one) == 1)
      sum += one;
  fclose(maps);
  return sum;
}

// What is in use at the time of the fork is a child's as well, and no more than that.
static void children_hold_what_is_in_use(void) {
  pid_t children[kChildren];
  int ends[2];
  unsigned char* kept = malloc(MIB(3));
  unsigned char* own = aligned_alloc(KIB(64), MIB(1));  // the program leaves it out itself
  const int left_out = leaves_memory_out();
  CHECK(kept != NULL && own != NULL && pipe(ends) == 0);
  for (unsigned i = 0; i < 40; ++i)
    iterate(MIB(4));
  fill(kept, MIB(3), 7);
  fill(own, MIB(1), 8);
  CHECK(!left_out || madvise(own, MIB(1), MADV_WIPEONFORK) == 0);
  for (unsigned i = 0; i < kChildren; ++i) {
    children[i] = fork();
    if (children[i] == 0) {
      char byte;
      close(ends[1]);
      CHECK(read(ends[0], &byte, 1) == 1);
      CHECK(filled(kept, MIB(3), 7));
      CHECK(!left_out || all_zero(own, MIB(1)));
      iterate(MIB(4));
      _exit(0);
    }
    CHECK(children[i] > 0);
    for (unsigned k = 0; k < 3; ++k)
      iterate(MIB(4));
  }
  if (left_out)
    for (unsigned i = 0; i < kChildren; ++i)
      CHECK(held_kib(children[i]) < 16 * 1024);
  for (unsigned i = 0; i < kChildren; ++i) {  // one at a time: there may be no room for all
    int status = 0;
    CHECK(write(ends[1], "x", 1) == 1 && wait(&status) > 0);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  close(ends[0]), close(ends[1]);
  free(kept), free(own);
  printf("children hold what is in use ok\n");
}

static unsigned char* published[kThreads][kSlots];
static volatile int stop;

static size_t size_of_slot(unsigned slot) {
  return MIB(1) + slot * KIB(200);
}

// A block is published once it is written, and is no more before it is freed.
static void* publish(void* argument) {
  unsigned char** mine = published[(size_t)argument];
  while (!stop) {
    for (unsigned i = 0; i < kSlots; ++i) {
      unsigned char* block = malloc(size_of_slot(i));
      CHECK(block != NULL);
      fill(block, size_of_slot(i), i);
      __atomic_store_n(&mine[i], block, __ATOMIC_RELEASE);
    }
    for (unsigned i = 0; i < kSlots; ++i) {
      unsigned char* block = mine[i];
      __atomic_store_n(&mine[i], NULL, __ATOMIC_RELEASE);
      free(block);
    }
  }
  return NULL;
}

static void check_published(void) {
  for (unsigned thread = 0; thread < kThreads; ++thread)
    for (unsigned i = 0; i < kSlots; ++i) {
      const unsigned char* block = __atomic_load_n(&published[thread][i], __ATOMIC_ACQUIRE);
      CHECK(block == NULL || filled(block, size_of_slot(i), i));
    }
}

static pid_t clone_bare(void) {
  return (pid_t)syscall(SYS_clone, (long)SIGCHLD, 0L, 0L, 0L, 0L);
}

// A child goes on with its own blocks, which are in its own children.
static void go_on(pid_t (*again)(void)) {
  unsigned char* blocks[kSlots];
  for (unsigned turn = 0; turn < 3; ++turn)
    for (unsigned i = 0; i < kSlots; ++i) {
      blocks[i] = malloc(size_of_slot(i));
      CHECK(blocks[i] != NULL);
      fill(blocks[i], size_of_slot(i), i + turn);
      if (turn < 2)
        free(blocks[i]);
    }
  const pid_t child = again();
  for (unsigned i = 0; i < kSlots; ++i)
    CHECK(filled(blocks[i], size_of_slot(i), i + 2));
  if (child == 0)
    syscall(SYS_exit_group, 0);
  ends_well(child);
}

static void fork_while_others_write(void) {
  pthread_t threads[kThreads];
  stop = 0;
  for (size_t i = 0; i < kThreads; ++i)
    CHECK(pthread_create(&threads[i], NULL, publish, (void*)i) == 0);
  for (unsigned i = 0; i < repeated(80, 8); ++i) {
    const int bare = on_glibc() && i % 4 == 3;
    iterate(KIB(500));
    const pid_t child = bare ? clone_bare() : fork();
    if (child == 0) {
      check_published();
      go_on(bare ? clone_bare : fork);
      syscall(SYS_exit_group, 0);
    }
    ends_well(child);
  }
  stop = 1;
  for (int i = 0; i < kThreads; ++i)
    CHECK(pthread_join(threads[i], NULL) == 0);
  printf("fork while others write ok\n");
}

int main(void) {
  setvbuf(stdout, NULL, _IONBF, 0);
  end_after(120);
  children_hold_what_is_in_use();
  // Under strict overcommit each child is charged for all of it, and so is its own.
  if (!has_memory(MIB(400), MIB(400))) {
    puts("skipped: there is no room for the children");
    return 77;
  }
  fork_while_others_write();
  return 0;
}
