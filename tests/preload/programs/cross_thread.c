// Blocks of one thread's slab freed, resized and read by others: producer and consumer, a ring of
// threads, and frees that come one iteration late.
#include "support.h"

// A one-place mailbox between two threads.
struct mailbox {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  void* blocks[kStepCount];
  int full, closed;
};
static struct mailbox to_consumer = {
    PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, {0}, 0, 0};

static void put(struct mailbox* box, void* blocks[kStepCount]) {
  pthread_mutex_lock(&box->lock);
  while (box->full)
    pthread_cond_wait(&box->changed, &box->lock);
  memcpy(box->blocks, blocks, sizeof box->blocks);
  box->full = 1;
  pthread_cond_broadcast(&box->changed);
  pthread_mutex_unlock(&box->lock);
}

static int get(struct mailbox* box, void* blocks[kStepCount]) {
  pthread_mutex_lock(&box->lock);
  while (!box->full && !box->closed)
    pthread_cond_wait(&box->changed, &box->lock);
  const int taken = box->full;
  memcpy(blocks, box->blocks, sizeof box->blocks);
  box->full = 0;
  pthread_cond_broadcast(&box->changed);
  pthread_mutex_unlock(&box->lock);
  return taken;
}

static void* consume(void* unused) {
  (void)unused;
  void* blocks[kStepCount];
  while (get(&to_consumer, blocks)) {
    // One block is resized by the thread that did not allocate it.
    blocks[2] = realloc(blocks[2], step_size(2) + KIB(100));
    CHECK(blocks[2] && filled(blocks[2], step_size(2), 2));
    free_steps(blocks);
  }
  return NULL;
}

static void producer_and_consumer(void) {
  pthread_t consumer;
  void* blocks[kStepCount];
  CHECK(pthread_create(&consumer, NULL, consume, NULL) == 0);
  for (int i = 0; i < 300; ++i) {
    take_steps(blocks);
    put(&to_consumer, blocks);
  }
  pthread_mutex_lock(&to_consumer.lock);
  to_consumer.closed = 1;
  pthread_cond_broadcast(&to_consumer.changed);
  pthread_mutex_unlock(&to_consumer.lock);
  CHECK(pthread_join(consumer, NULL) == 0);
  printf("producer and consumer ok\n");
}

// Everyone learns the same sequence, then frees what the neighbour allocated.
enum { kRing = 4, kRounds = 60 };
static void* ring_blocks[kRing][kStepCount];
static pthread_barrier_t barrier;

static void* walk_ring(void* argument) {
  const size_t self = (size_t)argument;
  learn_steps();
  for (int round = 0; round < kRounds; ++round) {
    take_steps(ring_blocks[self]);
    pthread_barrier_wait(&barrier);
    free_steps(ring_blocks[(self + 1) % kRing]);
    pthread_barrier_wait(&barrier);
  }
  return NULL;
}

static void ring_of_threads(void) {
  pthread_t threads[kRing];
  CHECK(pthread_barrier_init(&barrier, NULL, kRing) == 0);
  for (size_t i = 0; i < kRing; ++i)
    CHECK(pthread_create(&threads[i], NULL, walk_ring, (void*)i) == 0);
  for (size_t i = 0; i < kRing; ++i)
    CHECK(pthread_join(threads[i], NULL) == 0);
  printf("ring of threads ok\n");
}

// Another thread holds a served block back for an iteration: its pages are occupied, so the place
// must not be given out a second time.
static void* free_later(void* blocks) {
  free_steps((void**)blocks);
  return NULL;
}

static void late_frees(void) {
  void *held[kStepCount], *now[kStepCount];
  learn_steps();
  take_served_steps(held);
  for (int i = 0; i < 40; ++i) {
    take_steps(now);
    for (int j = 0; j < kStepCount; ++j)
      for (int k = 0; k < kStepCount; ++k)
        CHECK(now[j] != held[k]);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, free_later, held) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    memcpy(held, now, sizeof held);
  }
  free_steps(held);
  printf("late frees ok\n");
}

int main(void) {
  late_frees();  // first: a loop that another thread has disturbed must repeat for longer to be served
  producer_and_consumer();
  ring_of_threads();
  return 0;
}
