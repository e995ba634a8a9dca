// The C library has PTHREAD_KEYS_MAX keys of threads, and all are the program's.
#include <limits.h>

#include "support.h"

static void* work(void* argument) {
  learn_steps();
  return argument;
}

static int mappings(void) {
  FILE* file = fopen("/proc/self/maps", "r");
  CHECK(file != NULL);
  int lines = 0;
  for (int letter = fgetc(file); letter != EOF; letter = fgetc(file))
    lines += letter == '\n';
  fclose(file);
  return lines;
}

int main(void) {
  learn_steps();
  static pthread_key_t keys[PTHREAD_KEYS_MAX + 1];
  int count = 0;
  while (count <= PTHREAD_KEYS_MAX && pthread_key_create(&keys[count], NULL) == 0)
    ++count;
  printf("%d keys\n", count);
  CHECK(pthread_key_create(&keys[count], NULL) == EAGAIN);
  // Threads come and go as before.
  for (int i = 0; i < 300; ++i) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, work, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
  }
  for (int i = 0; i < count; ++i)
    CHECK(pthread_key_delete(keys[i]) == 0);
  // There are keys again, so what a thread leaves is the next one's again.
  const int before = mappings();
  for (int i = 0; i < 100; ++i) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, work, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
  }
  CHECK(mappings() - before < 100);
  CHECK(pthread_key_create(&keys[0], NULL) == 0);
  check_served();
  printf("ok\n");
  return 0;
}
