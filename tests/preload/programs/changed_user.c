// No thread of the process keeps a user that the program has given up, be it one of the library's, which works meanwhile: what
// setresuid() promises.
#define _GNU_SOURCE
#include "support.h"

enum { kBlocks = 8, kRounds = 40, kUser = 65534 };

static void work(void) {
  for (unsigned round = 0; round < kRounds; ++round) {
    void* blocks[kBlocks];
    for (unsigned i = 0; i < kBlocks; ++i)
      blocks[i] = malloc(MIB(2) + i * KIB(8));
    fill_check_free(blocks, kBlocks, MIB(2));
  }
}

static unsigned most_seen;

// Those whose user is another than `expected`.
static unsigned threads_of_others(unsigned expected) {
  unsigned others = 0, seen = 0;
  DIR* tasks = opendir("/proc/self/task");
  CHECK(tasks != NULL);
  for (struct dirent* entry = readdir(tasks); entry != NULL; entry = readdir(tasks)) {
    char path[300], line[256];
    snprintf(path, sizeof path, "/proc/self/task/%s/status", entry->d_name);
    FILE* status = entry->d_name[0] != '.' ? fopen(path, "r") : NULL;
    if (status == NULL)  // it has ended
      continue;
    unsigned real = 0, effective = 0;
    while (fgets(line, sizeof line, status) != NULL)
      if (sscanf(line, "Uid: %u %u", &real, &effective) == 2) {
        ++seen;
        others += real != expected || effective != expected;
      }
    fclose(status);
  }
  closedir(tasks);
  CHECK(seen != 0);
  most_seen = seen > most_seen ? seen : most_seen;
  return others;
}

int main(void) {
  if (geteuid() != 0) {
    puts("skipped: needs root");
    return 0;
  }
  for (unsigned i = 0; i < 3; ++i) {
    work();
    usleep(50000);  // the library's threads are at work by now
    CHECK(setresuid(kUser, kUser, 0) == 0);
    CHECK(threads_of_others(kUser) == 0);
    work();
    usleep(50000);
    CHECK(threads_of_others(kUser) == 0);
    CHECK(setresuid(0, 0, 0) == 0);
    CHECK(threads_of_others(0) == 0);
  }
  if (serving_expected())
    CHECK(most_seen > 1);
  return 0;
}
