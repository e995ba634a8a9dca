// After large calls from deep stacks the process has the descriptors that it had: whatever the
// library opened for itself is closed again.
#include <dirent.h>

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

int main(void) {
  list_descriptors();
  learn_deeper(8);
  list_descriptors();
  return 0;
}
