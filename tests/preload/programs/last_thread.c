// The process whose first thread ends by pthread_exit() ends with the program's last thread, whatever the library's own
// still do: exit() runs on it, with what was printed, and with the program's descriptors. Where that thread has never
// allocated much, exit() may run on one of the library's, which is the last then; all else is the same.
#define _GNU_SOURCE
#include <fcntl.h>

#include "support.h"

enum { kBlocks = 8, kRounds = 40 };

static int next_number;      // of the program's descriptors, the lowest that is free
static volatile pid_t last;  // of the program's threads

static void exit_handler(void) {
  const int file = open("/dev/null", O_RDONLY | O_CLOEXEC);
  printf("a file opened at the end has %s\n",
         file == next_number ? "the next number" : "another number");
  sigset_t mask;
  pthread_sigmask(SIG_SETMASK, NULL, &mask);
  printf("signals come%s\n", sigismember(&mask, SIGTERM) == 0 ? "" : " not");
  if (last != 0)
    printf("exit() runs on %s\n", gettid() == last ? "the last thread" : "another thread");
}

static void work(void) {
  for (unsigned round = 0; round < kRounds; ++round) {
    void* blocks[kBlocks];
    for (unsigned i = 0; i < kBlocks; ++i) {
      blocks[i] = malloc(MIB(8));
      CHECK(blocks[i] != NULL);
      memset(blocks[i], 1, KIB(64));
    }
    for (unsigned i = 0; i < kBlocks; ++i)
      free(blocks[i]);
  }
}

static pthread_t first;

static void* outlive(void* argument) {
  CHECK(pthread_join(first, NULL) == 0);
  usleep(50000);
  return argument;
}

static void* work_and_outlive(void* argument) {
  work();
  last = gettid();
  return outlive(argument);
}

static void* end_at_once(void* argument) {
  return argument;
}

struct shape {
  const char* name;
  void* (*worker)(void*);  // NULL: there is none
  int first_works;
};

static const struct shape shapes[] = {
    {"the first thread alone", NULL, 1},
    {"a worker that has ended", end_at_once, 1},
    {"a worker that allocates nothing", outlive, 1},
    {"a worker that allocates", work_and_outlive, 0},
    {"a worker and the first thread", work_and_outlive, 1},
};

// In a child, whose stdout is a pipe to its parent; the first thread of the program ends there.
static void live(const struct shape* shape) {
  CHECK(atexit(exit_handler) == 0);
  last = shape->worker == outlive ? 0 : getpid();
  next_number = open("/dev/null", O_RDONLY | O_CLOEXEC);
  close(next_number);
  printf("%s\n", shape->name);
  // The library's thread comes with the second of the program's.
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, end_at_once, NULL) == 0 && pthread_join(thread, NULL) == 0);
  first = pthread_self();
  if (shape->worker != NULL)
    CHECK(pthread_create(&thread, NULL, shape->worker, NULL) == 0);
  if (shape->worker == end_at_once)
    CHECK(pthread_join(thread, NULL) == 0);
  if (shape->first_works)
    work();
  pthread_exit(NULL);
}

int main(int count, char** arguments) {
  if (count > 1)
    live(&shapes[atoi(arguments[1])]);
  for (unsigned i = 0; i < sizeof shapes / sizeof shapes[0]; ++i) {
    int ends[2];
    CHECK(pipe2(ends, O_CLOEXEC) == 0);
    const pid_t child = fork();
    if (child == 0) {
      char number[8];
      snprintf(number, sizeof number, "%u", i);
      dup2(ends[1], STDOUT_FILENO);
      execl("/proc/self/exe", arguments[0], number, NULL);
      _exit(127);
    }
    close(ends[1]);
    char text[200];
    size_t size = 0;
    for (ssize_t got; (got = read(ends[0], text + size, sizeof text - size)) > 0;
         size += (size_t)got) {
    }
    close(ends[0]);
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    fwrite(text, 1, size, stdout);
  }
  return 0;
}
