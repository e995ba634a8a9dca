// After large calls from deep stacks the process has the descriptors that it had: whatever the
// library opened for itself is closed again. And its threads hold none of the program's: who reads
// from a pipe is told of its end, and what they open takes no number.
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>

#include "support.h"

static void list_descriptors(void) {
  DIR* folder = opendir("/proc/self/fd");
  CHECK(folder != NULL);
  unsigned count = 0;
  for (const struct dirent* entry = readdir(folder); entry != NULL; entry = readdir(folder))
    count += entry->d_name[0] != '.' && atoi(entry->d_name) != dirfd(folder);
  closedir(folder);
  printf("%u descriptors\n", count);
}

// New pages of the stack from call to call.
__attribute__((noinline)) static void learn_deeper(int depth) {
  volatile char frame[5000];
  frame[0] = (char)depth;
  learn_steps();
  if (depth > 0)
    learn_deeper(depth - 1);
  CHECK(frame[0] == (char)depth);
}

enum { kLarge = 8 };

static int wakes[2];
static volatile int waits;

static void* wait_for_the_end(void* argument) {
  char byte;
  waits = 1;
  CHECK(read(wakes[0], &byte, 1) == 0);
  return argument;
}

// Of a pipe that is there before the library starts a thread, and of what is opened later.
static void threads_have_none(void) {
  int ends[2];
  CHECK(pipe(ends) == 0 && pipe(wakes) == 0);
  pthread_t thread;  // one of the library's own is worth it where the program has some
  CHECK(pthread_create(&thread, NULL, wait_for_the_end, NULL) == 0);
  while (waits == 0)
    usleep(1000);
  for (int i = 0; i < 12; ++i) {  // and where much is kept
    void* blocks[kLarge];
    for (int k = 0; k < kLarge; ++k)
      blocks[k] = malloc(MIB(6));
    fill_check_free(blocks, kLarge, MIB(6));
  }
  usleep(200000);
  close(ends[1]);
  char byte;
  CHECK(read(ends[0], &byte, 1) == 0);
  close(ends[0]);
  for (int i = 0; i < 2000; ++i) {
    close(STDIN_FILENO);
    CHECK(open("/dev/null", O_RDONLY) == STDIN_FILENO);
  }
  close(wakes[1]);
  CHECK(pthread_join(thread, NULL) == 0);
  printf("threads have none ok\n");
}

int main(void) {
  threads_have_none();
  list_descriptors();
  learn_deeper(8);
  list_descriptors();
  check_served();
  return 0;
}
