// Loops one after the other, each larger than the last: the process holds what the largest needs, and not the sum of two. In one
// thread, and in threads that come and go.
#include "support.h"

enum { kBlocks = 8, kIterations = 20 };

static long peak_kib(void) {
  char line[256];
  long peak = -1;
  FILE* status = fopen("/proc/self/status", "r");
  CHECK(status != NULL);
  while (fgets(line, sizeof line, status) != NULL)
    sscanf(line, "VmHWM: %ld", &peak);
  fclose(status);
  return peak;
}

static void* loop(void* argument) {
  const size_t each = *(const size_t*)argument;
  for (unsigned iteration = 0; iteration < kIterations; ++iteration) {
    void* blocks[kBlocks];
    for (unsigned i = 0; i < kBlocks; ++i)
      blocks[i] = malloc(each + i * KIB(4));
    fill_check_free(blocks, kBlocks, each);
  }
  return argument;
}

static void larger_and_larger(int in_threads, size_t most) {
  for (size_t each = most / 2; each <= most; each += most / 8) {
    pthread_t thread;
    if (!in_threads)
      loop(&each);
    else
      CHECK(pthread_create(&thread, NULL, loop, &each) == 0 && pthread_join(thread, NULL) == 0);
  }
}

int main(void) {
  const long before = peak_kib();
  const size_t most = MIB(10);
  larger_and_larger(0, most / 2);
  larger_and_larger(1, most);
  const long held = peak_kib() - before;
  printf("the largest loop has %zu KiB\n", kBlocks * most / 1024);
  if (memomalloc_version != NULL && held > (long)(kBlocks * most / 1024 * 9 / 8)) {
    dprintf(STDERR_FILENO, "%ld KiB were held at once\n", held);
    return 1;
  }
  return 0;
}
