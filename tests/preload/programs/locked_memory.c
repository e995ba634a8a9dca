// Programs that lock all of their memory: they have what they use, and no more. Each way in a
// process of its own. Without the right to lock so much, nothing is locked; with a limit that what is
// there fits into, all is.
#define _GNU_SOURCE
#include <linux/capability.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "support.h"

enum { kUsed = 24, kRounds = 40, kMaxResident = 64, kMaxLocked = 400 };

static long status_mib(const char* name) {
  char line[256];
  long kib = 0;
  FILE* file = fopen("/proc/self/status", "r");
  CHECK(file != NULL);
  while (fgets(line, sizeof line, file) != NULL)
    if (strncmp(line, name, strlen(name)) == 0)
      kib = strtol(line + strlen(name), NULL, 10);
  fclose(file);
  return kib >> 10;
}

// A loop over 3 MiB, long enough to be served.
static void loop(void) {
  for (unsigned round = 0; round < kRounds; ++round) {
    void* blocks[kUsed];
    for (unsigned i = 0; i < kUsed; ++i) {
      const size_t size = KIB(64) + KIB(8) * ((i * 5) % kUsed);
      blocks[i] = malloc(size);
      CHECK(blocks[i] != NULL);
      fill(blocks[i], size, i);
    }
    for (unsigned i = 0; i < kUsed; ++i) {
      CHECK(filled(blocks[i], KIB(64) + KIB(8) * ((i * 5) % kUsed), i));
      free(blocks[i]);
    }
  }
}

// What the loop takes while everything is locked, as `how` says, before the first large block or
// after it.
static void locked(int how, int late) {
  const struct rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};
  if (setrlimit(RLIMIT_MEMLOCK, &limit) != 0)
    return;  // a user, whose limit is less than the loop takes
  if (late)
    loop();
  const long resident = status_mib("VmRSS:");
  if (mlockall(how) != 0)
    return;
  loop();
  const long grown = status_mib("VmRSS:") - resident;
  if (grown > kMaxResident) {
    dprintf(STDERR_FILENO, "%ld MiB more\n", grown);
    _exit(1);
  }
  void* more = malloc(MIB(60));
  CHECK(more != NULL);
  // Taken after the locking, as far as it lies in none of the memory from before.
  if ((how & MCL_FUTURE) != 0)
    CHECK(madvise((char*)more + MIB(50), KIB(64), MADV_DONTNEED) != 0);
  const long counted = status_mib("VmLck:");
  if (counted > kMaxLocked) {
    dprintf(STDERR_FILENO, "%ld MiB are locked\n", counted);
    _exit(1);
  }
  free(more);
}

// Bytes of all mappings that can be used.
static unsigned long with_access(void) {
  char line[512], access[8];
  unsigned long sum = 0, start, end;
  FILE* file = fopen("/proc/self/maps", "r");
  CHECK(file != NULL);
  while (fgets(line, sizeof line, file) != NULL)
    if (sscanf(line, "%lx-%lx %7s", &start, &end, access) == 3 && strncmp(access, "---", 3) != 0)
      sum += end - start;
  fclose(file);
  return sum;
}

// As a program that has not CAP_IPC_LOCK, whose limit is all that counts. What is only reserved fits
// into no limit.
static void unprivileged(int how, int late) {
  (void)how, (void)late;
  struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  struct __user_cap_data_struct rights[2];
  CHECK(syscall(SYS_capget, &header, rights) == 0);
  rights[0].effective &= ~(1u << CAP_IPC_LOCK);
  CHECK(syscall(SYS_capset, &header, rights) == 0);
  struct rlimit limit = {1 << 30, 1 << 30};
  if (setrlimit(RLIMIT_MEMLOCK, &limit) != 0) {
    getrlimit(RLIMIT_MEMLOCK, &limit);
    limit.rlim_cur = limit.rlim_max;
    CHECK(setrlimit(RLIMIT_MEMLOCK, &limit) == 0);
  }
  loop();
  malloc_trim(0);
  if (memomalloc_release)
    memomalloc_release();
  const int fits = with_access() < limit.rlim_cur;
  const int locked = mlockall(MCL_CURRENT) == 0;
  if (fits && !locked) {
    dprintf(STDERR_FILENO, "%lu KiB are not locked: %s\n", with_access() >> 10, strerror(errno));
    _exit(1);
  }
  loop();
  CHECK(munlockall() == 0);
  loop();
  limit.rlim_cur = 1 << 16;
  CHECK(setrlimit(RLIMIT_MEMLOCK, &limit) == 0);
  CHECK(mlockall(MCL_CURRENT) != 0 && errno == ENOMEM);
  loop();
}

// How a child that does `what` ends.
static int end_of(void what(int how, int late), int how, int late) {
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    what(how, late);
    _exit(0);
  }
  int status = -1;
  CHECK(waitpid(child, &status, 0) == child);
  return status;
}

int main(void) {
  int failed = 0;
  const int ways[] = {MCL_FUTURE, MCL_CURRENT | MCL_FUTURE, MCL_CURRENT};
  for (int late = 0; late < 2; ++late)
    for (unsigned i = 0; i < 3; ++i) {
      const int status = end_of(locked, ways[i], late);
      printf("way %u, %s: %d\n", i, late ? "late" : "early", status);
      failed |= status;
    }
  const int status = end_of(unprivileged, 0, 0);
  printf("unprivileged: %d\n", status);
  return (failed | status) != 0;
}
