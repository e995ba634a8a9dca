// A daemon closes its standard streams and then opens files of its own, which get the numbers 1
// and 2. The library must never write there.
#include <fcntl.h>

#include "support.h"

int main(void) {
  learn_steps();
  const int report = dup(STDOUT_FILENO);
  CHECK(report > 2);
  char name[] = "/tmp/closed_files_XXXXXX";
  const int made = mkstemp(name);
  CHECK(made > 2);
  for (int number = 0; number < 3; ++number) {
    close(number);
    if (open(name, O_RDWR | O_APPEND) != number)
      _exit(3);
  }
  unlink(name);
  void* blocks[kStepCount];
  learn_steps();
  take_steps(blocks);
  void* extra = malloc(MIB(3));
  free(extra);
  free_steps(blocks);
  if (memomalloc_release)
    memomalloc_release();
  learn_steps();
  if (lseek(made, 0, SEEK_END) != 0)
    _exit(4);
  return write(report, "closed files ok\n", 16) == 16 ? 0 : 5;
}
