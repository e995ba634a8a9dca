// A program of ISO C alone, which has functions of its own by names that ISO C leaves to it: nobody else calls them.
// Nothing of support.h, whose headers declare these names.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int calls;
static const char* last;

#define OWN(name)                      \
  int own_##name(void) __asm__(#name); \
  int own_##name(void) {               \
    ++calls;                           \
    last = #name;                      \
    return -1;                         \
  }                                    \
  struct ends_with_a_semicolon
OWN(access);
OWN(clock_gettime);
OWN(close);
OWN(closedir);
OWN(dladdr);
OWN(dlclose);
OWN(dlopen);
OWN(fchmod);
OWN(fchown);
OWN(fcntl);
OWN(flock);
OWN(fstat);
OWN(futex);
OWN(getauxval);
OWN(getdents64);
OWN(getegid);
OWN(geteuid);
OWN(getgroups);
OWN(gethostname);
OWN(getpid);
OWN(getppid);
OWN(getrlimit);
OWN(getrusage);
OWN(gettext);
OWN(gettid);
OWN(log);
OWN(lseek);
OWN(lstat);
OWN(madvise);
OWN(mincore);
OWN(mkdir);
OWN(mlock);
OWN(mlock2);
OWN(mmap);
OWN(mprotect);
OWN(mremap);
OWN(munlock);
OWN(munlockall);
OWN(munmap);
OWN(open);
OWN(openat);
OWN(opendir);
OWN(poll);
OWN(prctl);
OWN(pread);
OWN(process_vm_readv);
OWN(pthread_attr_init);
OWN(pthread_create);
OWN(pthread_getattr_np);
OWN(pthread_mutex_lock);
OWN(pthread_self);
OWN(pthread_setcancelstate);
OWN(pthread_setspecific);
OWN(pthread_sigmask);
OWN(read);
OWN(readdir);
OWN(readlink);
OWN(sched_getcpu);
OWN(sched_setscheduler);
OWN(secure_getenv);
OWN(setpriority);
OWN(sigaddset);
OWN(sigemptyset);
OWN(sigfillset);
OWN(sigismember);
OWN(sigpending);
OWN(stat);
OWN(statvfs);
OWN(syscall);
OWN(sysconf);
OWN(sysinfo);
OWN(uname);
OWN(unlink);
OWN(unlinkat);
OWN(utimensat);
OWN(write);

enum { kBlocks = 8, kRounds = 60, kBytes = 6 << 20, kPlaces = 200, kCalls = 600 };

// A loop whose plan is searched for: sizes and lives of no order, the same in each round.
static int unordered(void) {
  for (unsigned round = 0; round < kRounds; ++round) {
    char* blocks[kPlaces] = {0};
    unsigned random = 7;
    for (unsigned i = 0; i < kCalls; ++i) {
      random = random * 1103515245 + 12345;
      char** place = &blocks[(random >> 16) % kPlaces];
      char* before = *place;
      *place = before == NULL ? malloc(65536 + (random >> 7) % 300000) : NULL;
      if (before == NULL && *place == NULL)
        return 0;
      free(before);
    }
    for (unsigned i = 0; i < kPlaces; ++i)
      free(blocks[i]);
  }
  return 1;
}

int main(void) {
  if (!unordered())
    return 3;
  for (unsigned round = 0; round < kRounds; ++round) {
    char* blocks[kBlocks];
    for (unsigned i = 0; i < kBlocks; ++i) {
      blocks[i] = i % 2 == 0 ? malloc(kBytes) : calloc(1, kBytes);
      if (blocks[i] == NULL)
        return 1;
      memset(blocks[i], (int)i + 1, 1 << 16);
    }
    blocks[0] = realloc(blocks[0], 2 * (size_t)kBytes);
    for (unsigned i = 0; i < kBlocks; ++i) {
      if (blocks[i] == NULL || blocks[i][99] != (char)(i + 1))
        return 2;
      free(blocks[i]);
    }
  }
  printf("%d calls of the program's own functions%s%s\n", calls, calls != 0 ? ", last of " : "",
         calls != 0 ? last : "");
  return 0;
}
