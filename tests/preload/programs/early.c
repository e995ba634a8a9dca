// A process' first large calls are passed on, as most processes make no more; a call of some MiB is worth the library's
// start by itself.
#include "support.h"

int main(void) {
  void* few[8];
  for (int i = 0; i < 8; ++i) {
    few[i] = malloc(KIB(80));
    CHECK(few[i] != NULL);
  }
  const long early = counter("fallback_early");
  CHECK(early <= 8);
  void* large = malloc(MIB(6));
  CHECK(large != NULL);
  CHECK(counter("fallback_early") == early);
  for (int i = 0; i < 8; ++i)
    free(few[i]);
  free(large);
  puts("early calls ok");
  return 0;
}
