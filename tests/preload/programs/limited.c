// Limits that a process sets itself, at every moment: before the first large call, while a loop is
// learned, while it is served, and before the first large call of a thread that has already
// started. Addresses, data, descriptors, processes, file sizes, and the number of mappings. A
// request may be refused as without the library; everything else goes on, and every block keeps its
// bytes.
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "support.h"

enum { kHangs = 120 };  // seconds, of what takes less than one

enum moment { kBefore, kLearning, kServing, kThread, kMoments };
static const char* const moments[] = {"before", "while learning", "while serving",
                                      "before a thread's first call"};

// The steps of support.h, but a block may be refused.
static void loop(unsigned iterations, size_t more) {
  void* blocks[kStepCount];
  for (unsigned i = 0; i < iterations; ++i) {
    for (unsigned j = 0; j < kStepCount; ++j) {
      blocks[j] = malloc(step_size(j) + more);
      if (blocks[j] != NULL)
        fill(blocks[j], step_size(j) + more, j);
    }
    for (unsigned j = 0; j < kStepCount; ++j) {
      if (blocks[j] != NULL)
        CHECK(filled(blocks[j], step_size(j) + more, j));
      free(blocks[j]);
    }
  }
}

static size_t in_use(int resource) {
  long pages[6] = {0};
  FILE* file = fopen("/proc/self/statm", "r");
  CHECK(file != NULL);
  for (int i = 0; i < 6; ++i)
    CHECK(fscanf(file, "%ld", &pages[i]) == 1);
  fclose(file);
  return (size_t)pages[resource == RLIMIT_AS ? 0 : 5] * (size_t)sysconf(_SC_PAGESIZE);
}

static void limit(int resource, size_t value) {
  const struct rlimit both = {value, value};
  CHECK(setrlimit(resource, &both) == 0);
}

static void no_memory_more(void) {
  limit(RLIMIT_AS, in_use(RLIMIT_AS) + MIB(3));
}
static void no_data_more(void) {
  limit(RLIMIT_DATA, in_use(RLIMIT_DATA) + MIB(3));
}
static void nothing_at_all(void) {
  limit(RLIMIT_AS, in_use(RLIMIT_AS));
}
static void no_descriptors(void) {
  limit(RLIMIT_NOFILE, 0);
}
static void no_processes(void) {
  limit(RLIMIT_NPROC, 0);
}
static void no_bytes_in_files(void) {
  limit(RLIMIT_FSIZE, 0);
}
static void no_locked_bytes(void) {
  limit(RLIMIT_MEMLOCK, KIB(64));
}

// Every other page of an area is made readable until the kernel has no mapping more.
static void no_mappings(void) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE), pages = (size_t)1 << 20;
  char* area =
      mmap(NULL, pages * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  CHECK(area != MAP_FAILED);
  for (size_t at = 0; at < pages; at += 2) {
    if (mprotect(area + at * page, page, PROT_READ) != 0)
      return;
  }
}

static const struct {
  const char* name;
  void (*set)(void);
} limits[] = {
    {"3 MiB of addresses", no_memory_more}, {"3 MiB of data", no_data_more},
    {"no addresses", nothing_at_all},       {"no descriptors", no_descriptors},
    {"no processes", no_processes},         {"no bytes in files", no_bytes_in_files},
    {"64 KiB locked", no_locked_bytes},     {"no mappings", no_mappings},
};

static pthread_barrier_t barrier;

static void* late(void* nothing) {
  pthread_barrier_wait(&barrier);  // started, and has asked for nothing large
  pthread_barrier_wait(&barrier);  // the limit holds
  loop(repeated(kRepetitions, 12), 0);
  loop(repeated(kRepetitions, 12), KIB(8));
  return nothing;
}

static void go_on_in_child(void) {
  const pid_t child = fork();
  if (child == 0) {
    loop(repeated(kRepetitions, 12), 0);
    _exit(0);
  }
  int status = 0;
  if (child > 0)
    CHECK(waitpid(child, &status, 0) == child);
  CHECK(child < 0 || (WIFEXITED(status) && WEXITSTATUS(status) == 0));
}

static void run(enum moment moment, void (*set)(void)) {
  pthread_t thread;
  if (moment == kThread) {
    CHECK(pthread_barrier_init(&barrier, NULL, 2) == 0);
    CHECK(pthread_create(&thread, NULL, late, NULL) == 0);
    pthread_barrier_wait(&barrier);
  }
  if (moment == kLearning)
    loop(2, 0);
  if (moment == kServing || moment == kThread)
    loop(repeated(kRepetitions, 12), 0);
  set();
  loop(repeated(kRepetitions, 12), 0);
  if (moment == kThread) {
    pthread_barrier_wait(&barrier);
    CHECK(pthread_join(thread, NULL) == 0);
  }
  loop(repeated(kRepetitions, 12), KIB(12));
  if (set != no_mappings)  // each of which would be copied
    go_on_in_child();
  loop(repeated(kRepetitions, 12), 0);
}

int main(int argc, char** argv) {
  setvbuf(stdout, NULL, _IONBF, 0);
  prctl(PR_SET_DUMPABLE, 0);  // many processes could leave a core each
  const char* only = argc > 1 ? argv[1] : "";
  int failed = 0;
  for (size_t i = 0; i < sizeof limits / sizeof *limits; ++i) {
    for (enum moment moment = kBefore; moment < kMoments; ++moment) {
      if (strstr(limits[i].name, only) == NULL)
        continue;
      if (limits[i].set == no_mappings && (moment == kBefore || moment == kLearning))
        continue;  // the others show as much, and it takes long
      const pid_t child = fork();
      if (child == 0) {
        end_after(kHangs);
        run(moment, limits[i].set);
        exit(0);  // with all that is written at a process' end
      }
      int status = 0;
      CHECK(child > 0 && waitpid(child, &status, 0) == child);
      if (WIFSIGNALED(status)) {
        printf("%s, %s: ended by signal %d\n", limits[i].name, moments[moment], WTERMSIG(status));
        failed = 1;
      } else {
        CHECK(WEXITSTATUS(status) == 0);
      }
    }
    printf("%s ok\n", limits[i].name);
  }
  return failed;
}
