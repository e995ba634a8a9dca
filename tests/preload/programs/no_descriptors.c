// A process that has no descriptor left when it begins to allocate: where its stack lies cannot be
// read from the system then, and its loop is to be learned and served all the same.
#include <sys/resource.h>

#include "support.h"

int main(void) {
  struct rlimit before;
  CHECK(getrlimit(RLIMIT_NOFILE, &before) == 0);
  const struct rlimit none = {0, before.rlim_max};
  CHECK(setrlimit(RLIMIT_NOFILE, &none) == 0);
  CHECK(dup(STDOUT_FILENO) == -1 && errno == EMFILE);
  const long planned = counter("planned_allocations");
  learn_steps();
  if (serving_expected())
    CHECK(counter("planned_allocations") > planned);
  CHECK(setrlimit(RLIMIT_NOFILE, &before) == 0);
  puts("served without descriptors");
  return 0;
}
