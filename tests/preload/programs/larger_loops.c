// Loops one after the other, each larger than the last: the process holds what the largest needs, and not the sum of two.
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

static void loop(size_t each) {
  for (unsigned iteration = 0; iteration < kIterations; ++iteration) {
    void* blocks[kBlocks];
    for (unsigned i = 0; i < kBlocks; ++i)
      blocks[i] = malloc(each + i * KIB(4));
    fill_check_free(blocks, kBlocks, each);
  }
}

int main(void) {
  const long before = peak_kib();
  const size_t most = MIB(10);
  for (size_t each = most / 2; each <= most; each += most / 8)
    loop(each);
  check_served();
  const long held = peak_kib() - before;
  printf("the largest loop has %zu KiB\n", kBlocks * most / 1024);
  if (memomalloc_version != NULL && held > (long)(kBlocks * most / 1024 * 9 / 8)) {
    dprintf(STDERR_FILENO, "%ld KiB were held at once\n", held);
    return 1;
  }
  return 0;
}
