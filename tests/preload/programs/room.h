// What memory a process has had, and what it may have. For test programs, C and C++.
#pragma once

#include "support.h"

// True if this process may have `bytes` of memory of which it writes a page in each `stride`, by all
// limits that hold for it and by what others use now: a child tries, and is the one that the kernel
// ends if not.
static inline int has_memory(size_t bytes, size_t stride) {
  int status = -1;
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    FILE* score = fopen("/proc/self/oom_score_adj", "w");
    if (score != NULL) {
      fputs("1000", score);
      fclose(score);
    }
    char* area =
        (char*)mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (size_t at = 0; area != MAP_FAILED && at < bytes; at += stride)
      area[at] = 1;
    _exit(area == MAP_FAILED);
  }
  CHECK(waitpid(child, &status, 0) == child);
  return status == 0;
}

// True if this process may have so many bytes, of which a sixteenth is written, in pages of any size.
static inline int has_room(size_t bytes) {
  return has_memory(bytes, bytes) && has_memory(bytes / 16, KIB(4));
}

// What a file of /proc says of the process behind the name, in KiB; -1: nothing.
static inline long kib_in(const char* path, const char* name) {
  FILE* const file = fopen(path, "r");
  char line[256];
  long kib = -1;
  CHECK(file != NULL);
  while (kib < 0 && fgets(line, sizeof line, file) != NULL)
    if (strncmp(line, name, strlen(name)) == 0)
      kib = atol(line + strlen(name));
  fclose(file);
  return kib;
}

// What the process had at most in memory; what the system may take of it (MADV_FREE).
static inline long peak_kib(void) {
  return kib_in("/proc/self/status", "VmHWM:");
}
static inline long lazily_freed_kib(void) {
  return kib_in("/proc/self/smaps_rollup", "LazyFree:");
}
