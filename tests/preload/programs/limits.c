// Limits of the process: address space, data, and the number of mappings. Requests beyond them give
// NULL and ENOMEM, everything alive stays as it is, and a process that starts under a limit runs.
#include <sys/mman.h>
#include <sys/resource.h>

#include "room.h"
#include "support.h"

static void limit(int resource, size_t bytes) {
  const struct rlimit value = {bytes, bytes};
  CHECK(setrlimit(resource, &value) == 0);
}

// What a limit counts so far: all addresses, reserved ones included, or what may be written.
static size_t in_use(int resource) {
  long pages[6] = {0};
  FILE* file = fopen("/proc/self/statm", "r");
  CHECK(file != NULL);
  for (int i = 0; i < 6; ++i)
    CHECK(fscanf(file, "%ld", &pages[i]) == 1);
  fclose(file);
  return (size_t)pages[resource == RLIMIT_AS ? 0 : 5] * (size_t)sysconf(_SC_PAGESIZE);
}

// Where nothing is to refuse blocks of 1 MiB, the machine must have memory for so many of them: it
// would end the process.
enum { kMaxBlocks = 4000 };
static unsigned most_blocks = kMaxBlocks;

// Takes blocks until there are no more, checks them all and gives them back. `must_end`: there has
// to be an end before the last of them.
static void exhaust(size_t size, int must_end) {
  static void* blocks[kMaxBlocks];
  const unsigned most = must_end ? kMaxBlocks : most_blocks;
  unsigned count = 0;
  errno = 0;
  while (count < most && (blocks[count] = malloc(size)) != NULL) {
    memset(blocks[count], (int)count, 64);
    memset((char*)blocks[count] + size - 64, (int)count, 64);
    ++count;
  }
  CHECK(count > 0);
  if (must_end)
    CHECK(count < kMaxBlocks && errno == ENOMEM);
  if (must_end) {
    void* held = blocks[count - 1];
    errno = 0;
    CHECK(realloc(held, size * kMaxBlocks) == NULL && errno == ENOMEM);
    CHECK(calloc(kMaxBlocks, size) == NULL);
    void* aligned = NULL;
    CHECK(posix_memalign(&aligned, 4096, size * kMaxBlocks) == ENOMEM);
  }
  for (unsigned i = 0; i < count; ++i) {
    CHECK(*(unsigned char*)blocks[i] == (unsigned char)i);
    CHECK(((unsigned char*)blocks[i])[size - 1] == (unsigned char)i);
    free(blocks[i]);
  }
}

// Each in a process of its own, because a limit cannot be raised again.
static void in_child(const char* name, void (*run)(void)) {
  const pid_t child = fork();
  if (child == 0) {
    run();
    _exit(0);
  }
  int status = 0;
  CHECK(child > 0 && waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  printf("%s ok\n", name);
}

static void served_under_limit(int resource) {
  void* blocks[kStepCount];
  learn_steps();
  take_served_steps(blocks);
  limit(resource, in_use(resource) + MIB(96));
  // Addresses reserved before the limit was set are not refused afterwards.
  exhaust(MIB(1), resource == RLIMIT_DATA || counter("large_allocations") == 0);
  free_steps(blocks);
  learn_steps();
  take_served_steps(blocks);
  free_steps(blocks);
}

static void address_space_while_serving(void) {
  served_under_limit(RLIMIT_AS);
}
static void data_while_serving(void) {
  served_under_limit(RLIMIT_DATA);
}

// The limit is reached before anything is learned: there may be no room for a slab at all.
static void address_space_while_learning(void) {
  limit(RLIMIT_AS, in_use(RLIMIT_AS) + MIB(24));
  exhaust(KIB(256), 1);
  learn_steps();
  void* blocks[kStepCount];
  take_steps(blocks);
  free_steps(blocks);
}

static void nothing_left_for_a_slab(void) {
  void* filler[64];
  limit(RLIMIT_AS, in_use(RLIMIT_AS) + MIB(24));
  unsigned count = 0;
  while (count < 64 && (filler[count] = malloc(MIB(2))) != NULL)
    ++count;
  free(filler[--count]);  // room for the blocks themselves, not for a second copy of them
  learn_steps();
  while (count > 0)
    free(filler[--count]);
  learn_steps();
}

// Mappings that a process may have, or 0 if the system does not tell.
static size_t most_mappings(void) {
  size_t most = 0;
  FILE* file = fopen("/proc/sys/vm/max_map_count", "r");
  if (file != NULL) {
    CHECK(fscanf(file, "%zu", &most) == 1);
    fclose(file);
  }
  return most;
}

// Every other page is made readable, until the kernel refuses: each costs two mappings.
static void every_mapping_in_use(void) {
  learn_steps();
  const size_t page = (size_t)sysconf(_SC_PAGESIZE), pages = most_mappings() + 2;
  char* area =
      mmap(NULL, pages * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  CHECK(area != MAP_FAILED);
  size_t used = 0;
  while (used < pages && mprotect(area + used * page, page, PROT_READ) == 0)
    used += 2;
  CHECK(used < pages || pages == 2);
  void* blocks[kStepCount];
  for (int i = 0; i < 10; ++i) {
    for (unsigned j = 0; j < kStepCount; ++j) {
      blocks[j] = malloc(step_size(j) + KIB(4) * (unsigned)(i % 2));
      if (blocks[j])
        fill(blocks[j], step_size(j), j);
    }
    for (unsigned j = 0; j < kStepCount; ++j) {
      if (blocks[j])
        CHECK(filled(blocks[j], step_size(j), j));
      free(blocks[j]);
    }
  }
  munmap(area, pages * page);
  learn_steps();
}

int main(int argc, char** argv) {
  if (argc == 2) {
    learn_steps();
    return 0;
  }
  setvbuf(stdout, NULL, _IONBF, 0);
  while (!has_memory(MIB(1) * most_blocks, KIB(512)))
    most_blocks /= 2;
  in_child("address space while serving", address_space_while_serving);
  in_child("data while serving", data_while_serving);
  in_child("address space while learning", address_space_while_learning);
  // Other allocators do not give a freed block's addresses back at once.
  if (on_glibc())
    in_child("nothing left for a slab", nothing_left_for_a_slab);
  in_child("every mapping in use", every_mapping_in_use);
  // A whole process under the limit, our constructor included.
  limit(RLIMIT_AS, MIB(64));
  (void)argv;
  CHECK(run_again("child", NULL, NULL) == 0);
  printf("started under a limit ok\n");
  return 0;
}
