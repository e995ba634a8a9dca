// malloc_trim, mallopt, mallinfo, malloc_info: they answer, and they leave every block as it is.
#include <malloc.h>

#include "support.h"

// Other allocators leave glibc's functions to glibc, whose heap then stays empty; so totals are
// compared only on glibc.
static void trim_keeps_blocks(void) {
  void* blocks[kStepCount];
  take_steps(blocks);
  const int result = malloc_trim(0);
  CHECK(result == 0 || result == 1);
  free_steps(blocks);
  malloc_trim(MIB(1));
}

static void mallinfo_answers(void) {
  void* large = malloc(KIB(333));
  void* small = malloc(1000);
  CHECK(large && small);
  fill(large, KIB(333), 1);
  const struct mallinfo2 info = mallinfo2();
  if (on_glibc())
    CHECK(info.uordblks >= 1000 && info.arena >= info.uordblks);
  CHECK(filled(large, KIB(333), 1));
  free(large);
  free(small);
}

static void malloc_info_writes_xml(void) {
  void* large = malloc(KIB(222));
  CHECK(large != NULL);
  char* text = NULL;
  size_t size = 0;
  FILE* stream = open_memstream(&text, &size);
  CHECK(stream && malloc_info(0, stream) == 0);
  fclose(stream);
  CHECK(size > 0 && strstr(text, "<malloc") != NULL);
  errno = 0;
  CHECK(malloc_info(99, stdout) != 0);
  free(text);
  free(large);
}

static void mallopt_is_accepted(void) {
  void* large = malloc(KIB(111));
  CHECK(large != NULL);
  CHECK(mallopt(M_MMAP_THRESHOLD, (int)KIB(256)) == 1);
  CHECK(mallopt(M_TRIM_THRESHOLD, (int)MIB(1)) == 1);
  void* other = malloc(KIB(300));
  CHECK(other != NULL);
  free(other);
  free(large);
}

int main(void) {
  static const struct test_case cases[] = {
      CASE(trim_keeps_blocks, kStepCount),
      CASE(mallinfo_answers, 1),
      CASE(malloc_info_writes_xml, 1),
      CASE(mallopt_is_accepted, 2),
  };
  return RUN_CASES(cases);
}
