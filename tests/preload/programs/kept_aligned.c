// Small blocks aligned to a cache line, which the library keeps for the thread that frees them: of the size and at the
// border that was asked for, each byte the caller's alone, and none lost where threads come and go.
#include "support.h"

enum { kAlive = 400, kLine = 64 };

struct slot {
  unsigned char* block;
  size_t size;
  unsigned id;
};

static void* aligned(unsigned way, size_t size) {
  void* block = NULL;
  if (way == 0)
    CHECK(posix_memalign(&block, kLine, size) == 0);
  else
    block = way == 1 ? aligned_alloc(kLine, size) : memalign(kLine, size);
  CHECK(block != NULL && (uintptr_t)block % kLine == 0);
  return block;
}

static void give(struct slot* slot) {
  CHECK(filled(slot->block, slot->size, slot->id));
  free(slot->block);
  slot->block = NULL;
}

static void take(struct slot* slot, unsigned id, unsigned random) {
  slot->size = 1 + random % (random % 8 == 0 ? 6000 : 700);
  slot->id = id;
  slot->block = random % 3 == 0 ? malloc(slot->size) : aligned(random % 4 % 3, slot->size);
  CHECK(slot->block != NULL && malloc_usable_size(slot->block) >= slot->size);
  fill(slot->block, slot->size, id);
}

static void grow(struct slot* slot) {
  CHECK(filled(slot->block, slot->size, slot->id));
  slot->block = realloc(slot->block, slot->size * 2);
  CHECK(slot->block != NULL && filled(slot->block, slot->size, slot->id));
  slot->size *= 2;
  fill(slot->block, slot->size, slot->id);
}

static struct slot shared[kAlive];
static pthread_mutex_t locks[kAlive];

// What one thread has got another frees, or makes larger.
static void* mix(void* seed) {
  unsigned random = *(unsigned*)seed;
  for (unsigned i = 0; i < repeated(40000, 4000); ++i) {
    random = random * 1664525u + 1013904223u;
    struct slot* slot = &shared[(random >> 8) % kAlive];
    pthread_mutex_t* lock = &locks[slot - shared];
    pthread_mutex_lock(lock);
    if (slot->block == NULL)
      take(slot, i, random >> 4);
    else if (random >> 28 == 0)
      grow(slot);
    else
      give(slot);
    pthread_mutex_unlock(lock);
  }
  return NULL;
}

static void each_byte_is_the_callers(void) {
  enum { kThreads = 4 };
  unsigned seeds[kThreads] = {1, 2, 3, 4};
  pthread_t threads[kThreads];
  for (unsigned i = 0; i < kAlive; ++i)
    CHECK(pthread_mutex_init(&locks[i], NULL) == 0);
  for (unsigned i = 0; i < kThreads; ++i)
    CHECK(pthread_create(&threads[i], NULL, mix, &seeds[i]) == 0);
  for (unsigned i = 0; i < kThreads; ++i)
    CHECK(pthread_join(threads[i], NULL) == 0);
  for (unsigned i = 0; i < kAlive; ++i)
    if (shared[i].block != NULL)
      give(&shared[i]);
  printf("each byte is the caller's\n");
}

// A child has what its parent kept, and neither sees what the other does with it.
static void children_have_their_own(void) {
  void* blocks[8];
  for (unsigned i = 0; i < 8; ++i)
    fill(blocks[i] = aligned(0, 500), 500, i);
  for (unsigned i = 0; i < 8; i += 2)
    free(blocks[i]);
  const pid_t child = fork();
  for (unsigned i = 0; i < 8; i += 2)
    fill(blocks[i] = aligned(0, 500), 500, i + (child == 0 ? 100u : 0u));
  for (unsigned i = 0; i < 8; ++i) {
    CHECK(filled(blocks[i], 500, i + (child == 0 && i % 2 == 0 ? 100u : 0u)));
    free(blocks[i]);
  }
  if (child == 0)
    _exit(0);
  ends_well_within(child, 30);
  printf("children have their own\n");
}

static void* come_and_go(void* unused) {
  (void)unused;
  void* blocks[16];
  for (unsigned i = 0; i < 16; ++i)
    fill(blocks[i] = aligned(i % 3, 4000), 4000, i);
  for (unsigned i = 0; i < 16; ++i)
    free(blocks[i]);
  return NULL;
}

// Bytes in use of all of the C library's heaps.
static size_t in_use(void) {
#if defined(__GLIBC_PREREQ) && __GLIBC_PREREQ(2, 33)
  return mallinfo2().uordblks;
#else
  return 0;
#endif
}

static void threads_leave_nothing(void) {
  size_t before = 0;
  for (unsigned i = 0; i < 400; ++i) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, come_and_go, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    before = i == 20 ? in_use() : before;
  }
  CHECK(in_use() < before + MIB(1));  // 25 MB, if each left what it had
  printf("threads leave nothing\n");
}

int main(void) {
  each_byte_is_the_callers();
  children_have_their_own();
  threads_leave_nothing();
  return 0;
}
