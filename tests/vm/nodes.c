// Where the memory of a loop lies on a machine of several memory nodes. `count` starts a program of a
// few threads, asks the kernel on which node each page of its blocks is after 100 iterations, and
// prints a line of JSON; `work` is that program. Run by tests/vm/nodes.py in a guest.
//
//   nodes count SCENARIO FILTER LIBRARY     FILTER 1: as in a container, no call on nodes is answered
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kIterations = 100, kBlocks = 24, kWeights = 8, kThreads = 4, kNodes = 4, kMove = 50 };
#define MIB ((size_t)1 << 20)
#define CHECK(good)                                                   \
  do {                                                                \
    if (!(good)) {                                                    \
      fprintf(stderr, "%s: %s (errno %d)\n", __func__, #good, errno); \
      exit(1);                                                        \
    }                                                                 \
  } while (0)

static int processors, nodes;  // of the guest; each node has as many processors

static void bind_thread(int first, int last) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int i = first; i <= last; ++i)
    CPU_SET(i, &set);
  CHECK(sched_setaffinity(0, sizeof set, &set) == 0);
}
static void bind_to(int node) {
  const int each = processors / nodes;
  bind_thread(node * each, node * each + each - 1);
}

// The loop: blocks that a team of threads writes in equal parts, and weights that it reads.
static struct {
  char* block[kBlocks];
  char* weights[kWeights];
  int team;
  int place
      [kThreads];  // the processor that a thread of the team is bound to; -1: it binds itself no more
  pthread_barrier_t start, done;
} loop;
static size_t size_of(int block) {
  return (size_t)(1 + block * 7 % 5) * MIB / 4;  // 18 MiB together
}
static volatile char sink;

static void part_of_iteration(int number) {
  for (int pass = 0; pass < 2; ++pass) {
    for (int i = 0; i < kBlocks; ++i) {
      const size_t part = size_of(i) / (size_t)loop.team;
      memset(loop.block[i] + (size_t)number * part, pass + i, part);
    }
  }
  for (int i = 0; i < kWeights; ++i)
    for (size_t at = (size_t)number << 12; at < 2 * MIB; at += (size_t)loop.team << 12)
      sink += loop.weights[i][at];
}

static void follow_place(int number) {
  if (loop.place[number] >= 0)
    bind_thread(loop.place[number], loop.place[number]);
  loop.place[number] = -1;
}

static void* member(void* argument) {
  const int number = (int)(size_t)argument;
  for (;;) {
    pthread_barrier_wait(&loop.start);
    follow_place(number);
    part_of_iteration(number);
    pthread_barrier_wait(&loop.done);
  }
  return NULL;
}

static void iterate(void) {
  for (int i = 0; i < kBlocks; ++i)
    CHECK(posix_memalign((void**)&loop.block[i], 64, size_of(i)) == 0);
  pthread_barrier_wait(&loop.start);
  follow_place(0);
  part_of_iteration(0);
  pthread_barrier_wait(&loop.done);
}
static void end_iteration(void) {
  for (int i = 0; i < kBlocks; ++i)
    free(loop.block[i]);
  usleep(100000);  // until the next request: the library looks once a second
}

// Thread i of the team on node i, in turn, or all on the first.
static void place_team(int apart) {
  for (int i = 0; i < loop.team; ++i)
    loop.place[i] = apart ? i * processors / loop.team : 0;
}

static int work(const char* scenario, int out, int in) {
  const int is_team = strncmp(scenario, "team", 4) == 0;
  loop.team = is_team ? kThreads : 1;
  pthread_barrier_init(&loop.start, NULL, (unsigned)loop.team);
  pthread_barrier_init(&loop.done, NULL, (unsigned)loop.team);
  for (int i = 0; i < kThreads; ++i)
    loop.place[i] = -1;
  if (is_team)
    place_team(strcmp(scenario, "team-moves") != 0);
  follow_place(0);
  if (strcmp(scenario, "moves") == 0 || strcmp(scenario, "roams") == 0)
    bind_to(0);
  for (int i = 0; i < 16;
       ++i) {  // the library leaves a process' first large calls alone (kEarlyCalls)
    char* volatile block = malloc(MIB + (size_t)i);
    free(block);
  }
  for (int i = 0; i < kWeights; ++i) {
    CHECK(posix_memalign((void**)&loop.weights[i], 64, 2 * MIB) == 0);
    memset(loop.weights[i], i, 2 * MIB);
  }
  for (int i = 1; i < loop.team; ++i) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, member, (void*)(size_t)i) == 0);
  }
  for (int i = 0; i < kIterations; ++i) {
    if (i == kMove && strcmp(scenario, "team-moves") == 0)
      place_team(1);
    if (i == kMove && strcmp(scenario, "moves") == 0)
      bind_to(nodes - 1);
    if (strcmp(scenario, "roams") == 0)
      bind_to(i / 3 % nodes);
    iterate();
    if (i + 1 < kIterations)
      end_iteration();
  }
  FILE* told = fdopen(out, "w");
  for (int i = 0; i < kBlocks; ++i)
    fprintf(told, "block %zu %zu\n", (size_t)loop.block[i], size_of(i));
  for (int i = 0; i < kWeights; ++i)
    fprintf(told, "weight %zu %zu\n", (size_t)loop.weights[i], 2 * MIB);
  fclose(told);
  char byte;
  CHECK(read(in, &byte, 1) == 1);
  return 0;
}

// Refuses what container managers refuse without CAP_SYS_NICE.
static void refuse_node_calls(void) {
  static const int kRefused[] = {SYS_mbind, SYS_set_mempolicy, SYS_get_mempolicy, SYS_migrate_pages,
                                 SYS_move_pages};
  enum { kCount = sizeof kRefused / sizeof *kRefused };
  struct sock_filter code[kCount + 3] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))};
  for (int i = 0; i < kCount; ++i)
    code[i + 1] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)kRefused[i],
                                               (unsigned char)(kCount - i), 0);
  code[kCount + 1] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  code[kCount + 2] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
  struct sock_fprog program = {.len = kCount + 3, .filter = code};
  CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
  CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

struct child {
  pid_t pid;
  int out, in;
};

static struct child start(const char* scenario, int filter, const char* library, int node) {
  int out[2];
  int in[2];
  CHECK(pipe(out) == 0 && pipe(in) == 0);
  const pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) {
    char number[2][16];
    close(out[0]);
    close(in[1]);
    if (node >= 0)
      bind_to(node);
    if (filter)
      refuse_node_calls();
    if (*library != '\0')
      setenv("LD_PRELOAD", library, 1);
    snprintf(number[0], sizeof number[0], "%d", out[1]);
    snprintf(number[1], sizeof number[1], "%d", in[0]);
    execl("/proc/self/exe", "nodes", "work", scenario, number[0], number[1], NULL);
    _exit(127);
  }
  close(out[1]);
  close(in[0]);
  return (struct child){pid, out[0], in[1]};
}

static void count_pages(pid_t pid, size_t start, size_t bytes, long* found) {
  for (size_t at = start & ~(size_t)4095; at < start + bytes; at += 4096) {
    void* page = (void*)at;
    int node = -1;
    CHECK(syscall(SYS_move_pages, pid, 1UL, &page, NULL, &node, 0) == 0);
    if (node >= 0 && node < kNodes)
      ++found[node];
  }
}

static void print_pages(const char* name, const long* found) {
  printf(", \"%s\": [", name);
  for (int i = 0; i < nodes; ++i)
    printf("%s%ld", i ? ", " : "", found[i]);
  printf("]");
}

static void tell(const struct child* child, const char* scenario, int filter, int library,
                 int node) {
  long blocks[kNodes] = {0};
  long weights[kNodes] = {0};
  char kind[16];
  size_t start;
  size_t bytes;
  FILE* told = fdopen(child->out, "r");
  while (fscanf(told, "%15s %zu %zu", kind, &start, &bytes) == 3)
    count_pages(child->pid, start, bytes, *kind == 'b' ? blocks : weights);
  printf("row: {\"scenario\": \"%s\", \"filter\": %d, \"library\": %d, \"node\": %d", scenario,
         filter, library, node);
  print_pages("blocks", blocks);
  print_pages("weights", weights);
  int status = -1;
  CHECK(write(child->in, "", 1) == 1 && waitpid(child->pid, &status, 0) == child->pid);
  printf(", \"status\": %d}\n", status);
  fflush(stdout);
}

int main(int argc, char** argv) {
  processors = (int)sysconf(_SC_NPROCESSORS_CONF);
  CHECK(getenv("NODES") != NULL && (nodes = atoi(getenv("NODES"))) >= 1 && nodes <= kNodes);
  if (argc == 5 && strcmp(argv[1], "work") == 0)
    return work(argv[2], atoi(argv[3]), atoi(argv[4]));
  CHECK(argc == 5 && strcmp(argv[1], "count") == 0);
  const char* scenario = argv[2];
  const int filter = atoi(argv[3]);
  const int library = *argv[4] != '\0';
  const int bound = strcmp(scenario, "bound") == 0;
  struct child children[2];
  for (int i = 0; i <= bound; ++i)
    children[i] = start(scenario, filter, argv[4], bound ? i * (nodes - 1) : -1);
  for (int i = 0; i <= bound; ++i)
    tell(&children[i], scenario, filter, library, bound ? i * (nodes - 1) : -1);
  return 0;
}
