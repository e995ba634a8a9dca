// Random programs through the allocator: `random_programs SEED [OPERATIONS [THREADS [SMALLEST]]]`, operations
// for each thread, bytes of the smallest block. With TELL_COUNTERS in the environment it tells what was driven. See
// tests/stress/random_program.h.
#include "tests/stress/random_program.h"

#include "support.h"

int main(int argc, char** argv) {
  CHECK(argc >= 2 && argc <= 5);
  stress::Settings settings;
  settings.seed = strtoull(argv[1], nullptr, 10);
  settings.operations = argc > 2 ? strtoull(argv[2], nullptr, 10) : repeated(12000, 1500);
  settings.threads = argc > 3 ? static_cast<unsigned>(atoi(argv[3])) : 4;
  settings.smallest = argc > 4 ? strtoull(argv[4], nullptr, 10) : settings.smallest;
  stress::run_random_programs(settings);
  if (getenv("TELL_COUNTERS") != nullptr) {
    for (const char* name : {"planned_allocations", "plans", "shapes", "lowered", "diverged"})
      printf("%s %ld\n", name, counter(name));
  }
  check_served();
  printf("random programs ok\n");
  return 0;
}
