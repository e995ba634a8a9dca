// vfork, posix_spawn, system and popen from a process that serves; children inherit the preload and
// say nothing of their own.
#include "support.h"

static void* others(void* stop) {
  while (!*(volatile int*)stop)
    learn_steps();
  return NULL;
}

int main(void) {
  void* blocks[kStepCount];
  int stop = 0;
  pthread_t thread;
  char* arguments[] = {"true", NULL};
  setvbuf(stdout, NULL, _IONBF, 0);
  CHECK(pthread_create(&thread, NULL, others, &stop) == 0);
  learn_steps();
  for (int i = 0; i < 15; ++i) {
    take_steps(blocks);
    const pid_t child = vfork();
    if (child == 0) {
      execv("/bin/true", arguments);
      _exit(127);
    }
    ends_well(child);
    free_steps(blocks);
  }
  // A failed exec ends by _exit in the parent's memory.
  const pid_t failing = vfork();
  if (failing == 0) {
    execv("/no/such/program", arguments);
    _exit(0);
  }
  ends_well(failing);
  printf("vfork ok\n");
  for (int i = 0; i < 15; ++i) {
    take_steps(blocks);
    pid_t child = -1;
    CHECK(posix_spawn(&child, "/bin/true", NULL, NULL, arguments, environ) == 0);
    ends_well(child);
    free_steps(blocks);
  }
  printf("posix_spawn ok\n");
  for (int i = 0; i < 5; ++i) {
    take_steps(blocks);
    CHECK(system("true 2>&1 | cat") == 0);
    free_steps(blocks);
  }
  printf("system ok\n");
  for (int i = 0; i < 5; ++i) {
    take_steps(blocks);
    char text[64] = {0};
    FILE* pipe = popen("sh -c 'echo one; ls / > /dev/null; echo two' 2>&1", "r");
    CHECK(pipe && fread(text, 1, sizeof text - 1, pipe) == 8);
    CHECK(pclose(pipe) == 0 && strcmp(text, "one\ntwo\n") == 0);
    free_steps(blocks);
  }
  printf("popen ok\n");
  stop = 1;
  CHECK(pthread_join(thread, NULL) == 0);
  check_served();
  return 0;
}
