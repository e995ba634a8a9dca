// Random programs through the allocator, short: `random_programs SEED`. See
// tests/stress/random_program.h.
#include "support.h"
#include "tests/stress/random_program.h"

int main(int argc, char** argv) {
  CHECK(argc == 2);
  stress::Settings settings;
  settings.seed = strtoull(argv[1], nullptr, 10);
  settings.operations = 12000;
  stress::run_random_programs(settings);
  printf("random programs ok\n");
  return 0;
}
