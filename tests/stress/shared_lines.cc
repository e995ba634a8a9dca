// Counts what threads share in the library while their plans serve them, and how they wait where
// the pool serves them: the library's own objects, as the thread sanitizer has them compiled, over
// access_log.cc. Each case is a process of its own. Ends with a line `N passed, N failed`.
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>
#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "memomalloc/memomalloc.h"
#include "preload/process.h"
#include "src/base/tuning.h"
#include "tests/stress/access_log.h"
#include "tests/stress/heap.h"

namespace {

using accesses::Locking;
using memo::g_process;
using memo::t_state;

constexpr unsigned kCalls = 40;  // of an iteration
constexpr unsigned kAlive = 3;   // blocks
constexpr unsigned kLoops = 16;  // different ones; more threads go through the same
constexpr unsigned kSure = 8;    // iterations in a row that are served as a whole
constexpr unsigned kNoted = 4;   // iterations
constexpr unsigned kMaxIterations = 2000;

constinit std::atomic<bool> g_failed{false};

void expect(bool good, const char* what) {
  if (!good) {
    std::printf("  failed: %s\n", what);
    g_failed = true;
  }
}

// A block whose every page is written, as its program would.
void* block_of(std::size_t bytes, unsigned kind) {
  void* block = nullptr;
  if (kind % 4 == 1) {
    UNDER_TEST(posix_memalign)(&block, 64, bytes);
  } else {
    block = kind % 4 == 2 ? UNDER_TEST(calloc)(1, bytes) : UNDER_TEST(malloc)(bytes);
  }
  if (block == nullptr) {
    std::printf("  no memory\n");
    std::abort();
  }
  for (std::size_t at = 0; at < bytes; at += 4096) {
    static_cast<char*>(block)[at] = 1;
  }
  return block;
}

// What the thread's lane has planned, and how often a lower plan came in.
struct Progress {
  std::uint64_t planned = 0;
  std::uint64_t lowered = 0;

  static Progress now() {
    const memo::Lane* const lane = t_state.lane;
    return lane == nullptr
               ? Progress{}
               : Progress{lane->counters.planned_allocations.get(), lane->counters.lowered.get()};
  }
};

// One iteration of a thread's loop; whether a plan that is believed has placed all of its blocks,
// and is the one that it was.
bool iterate(unsigned loop) {
  stress::Random random(loop + 1);
  void* alive[kAlive] = {};
  const Progress before = Progress::now();
  for (unsigned i = 0; i < kCalls; ++i) {
    void*& slot = alive[i % kAlive];
    UNDER_TEST(free)(slot);
    slot = block_of((64 << 10) + (random.below(48) << 12), i);
  }
  for (void* block : alive) {
    UNDER_TEST(free)(block);
  }
  const Progress after = Progress::now();
  return after.planned == before.planned + kCalls && after.lowered == before.lowered &&
         t_state.lane->tracker().state().short_way;
}

// Threads that wait for each other.
class Together {
 public:
  explicit Together(unsigned count) { pthread_barrier_init(&barrier_, nullptr, count); }
  void wait() { pthread_barrier_wait(&barrier_); }

 private:
  pthread_barrier_t barrier_;
};

void name_code(const void* code) {
  char command[128];
  std::snprintf(command, sizeof command, "addr2line -Cfipe /proc/%d/exe %p 2>&1 | head -4",
                getpid(), code);
  std::fflush(stdout);
  if (code != nullptr && std::system(command) != 0) {
    std::printf("  %p\n", code);
  }
}

void tell(const accesses::SharedLine& line) {
  const bool written = std::popcount(line.writers) > 1;
  std::printf("  line %llx: written by %d threads, used by %d\n",
              static_cast<unsigned long long>(line.address), std::popcount(line.writers),
              std::popcount(line.writers | line.readers));
  for (const void* code : line.code) {
    name_code(code);
  }
  expect(!written, "a line that several threads write");
  expect(written, "a line that one thread writes and others read");
}

// What a thread has done with locks in the iterations that are noted.
struct Served {
  std::uint64_t own = 0;       // times that it took its lane's,
  std::uint64_t others = 0;    // and others
  const void* code = nullptr;  // that took one of these
};

// True once an iteration was noted in which all blocks of all threads were placed by plans.
bool note_served(unsigned number, unsigned threads, std::atomic<unsigned>& ready,
                 std::atomic<unsigned>& placed, Together& together, Served& served) {
  const unsigned loop = number % kLoops;
  unsigned sure = 0;
  for (unsigned i = 0; i < kMaxIterations && ready.load() < threads; ++i) {
    const unsigned before = sure;
    sure = iterate(loop) ? sure + 1 : 0;
    ready += sure == kSure ? 1U : 0U;
    ready -= before >= kSure && sure == 0 ? 1U : 0U;
  }
  together.wait();
  if (number == 0) {
    const memo::os::Reserved blocks = g_process.engine.lanes.region.reserved()[0];
    accesses::leave_out(blocks.start, blocks.bytes);
    accesses::forget();
    placed = 0;
  }
  together.wait();
  accesses::own_locks(t_state.lane, sizeof(memo::Lane));
  const Locking before = accesses::my_locking();
  accesses::start(number);
  bool all = true;
  for (unsigned i = 0; i < kNoted; ++i) {
    all = iterate(loop) && all;
  }
  accesses::stop();
  placed += all ? 1U : 0U;
  const Locking& locking = accesses::my_locking();
  served = {locking.own - before.own, locking.taken - before.taken, locking.code};
  together.wait();
  const bool done = placed.load() == threads;
  if (number == 0 && !done) {
    ready = 0;
  }
  together.wait();
  return done;
}

void share_nothing(unsigned threads) {
  constexpr int kTries = 5;
  std::atomic<unsigned> ready{0};
  std::atomic<unsigned> placed{0};
  Together together(threads);
  std::vector<Served> served(threads);
  std::vector<std::thread> running;
  std::atomic<bool> done{false};
  for (unsigned number = 0; number < threads; ++number) {
    running.emplace_back([&, number] {
      for (int i = 0; i < kTries; ++i) {
        if (note_served(number, threads, ready, placed, together, served[number])) {
          done = true;
          break;
        }
      }
    });
  }
  for (std::thread& thread : running) {
    thread.join();
  }
  if (!done) {
    expect(false, "no iterations in which plans place all blocks of all threads");
    std::printf("slabs %u\n", g_process.engine.lanes.shared().slabs.count());
    static char text[16384];
    memomalloc_stats_json(text, sizeof text);
    std::printf("%s\n", text);
    return;
  }
  std::uint64_t own = 0;
  for (const Served& one : served) {
    own += one.own;
    if (one.others != 0) {
      name_code(one.code);
      expect(false, "a lock that is not the own lane's");
    }
  }
  const accesses::Noted noted = accesses::visit_shared(tell);
  const std::uint64_t calls = std::uint64_t{threads} * kNoted * kCalls;
  expect(noted.writes > calls, "hardly anything was noted");
  expect(own <= calls, "more than one lock a call");
  std::printf(
      "  %llu calls, as many frees: %.1f writes for the two, %llu lines; own lane's lock %.2f\n",
      static_cast<unsigned long long>(calls),
      static_cast<double>(noted.writes) / static_cast<double>(calls),
      static_cast<unsigned long long>(noted.lines),
      static_cast<double>(own) / static_cast<double>(calls));
}

struct Pooled {
  std::uint64_t calls = 0;
  std::uint64_t most = 0;        // locks that a call took
  std::uint64_t most_freed = 0;  // and a free
  Locking locking;
};

// Sizes in no order, of which some blocks stay alive.
void draw(unsigned number, Pooled& pooled) {
  constexpr unsigned kDrawn = 1000;
  stress::Random random(1000 + number);
  void* alive[8] = {};
  Locking& locking = accesses::my_locking();
  const auto taken_by = [&](auto&& call) {
    const std::uint64_t before = locking.taken;
    call();
    return locking.taken - before;
  };
  for (unsigned i = 0; i < kDrawn; ++i) {
    void*& slot = alive[random.below(8)];
    pooled.most_freed = std::max(pooled.most_freed, taken_by([&] { UNDER_TEST(free)(slot); }));
    const std::size_t bytes = (64 << 10) + random.below(1 << 20);
    const std::uint64_t taken = taken_by([&] { slot = block_of(bytes, 0); });
    // The first ones make the lane, and what starts beside it.
    if (i >= kDrawn / 8) {
      pooled.most = std::max(pooled.most, taken);
    } else {
      accesses::own_locks(t_state.lane, sizeof(memo::Lane));
      locking = {};
    }
  }
  for (void* block : alive) {
    UNDER_TEST(free)(block);
  }
  pooled.calls = kDrawn - kDrawn / 8;
  pooled.locking = locking;
}

void wait_little(unsigned threads) {
  Together together(threads);
  std::vector<Pooled> pooled(threads);
  std::vector<std::thread> running;
  for (unsigned number = 0; number < threads; ++number) {
    running.emplace_back([&, number] {
      together.wait();
      draw(number, pooled[number]);
    });
  }
  for (std::thread& thread : running) {
    thread.join();
  }
  Pooled all;
  for (const Pooled& one : pooled) {
    all.calls += one.calls;
    all.most = std::max(all.most, one.most);
    all.most_freed = std::max(all.most_freed, one.most_freed);
    all.locking.taken += one.locking.taken;
    all.locking.missed += one.locking.missed;
    all.locking.slept += one.locking.slept;
    all.locking.accesses += one.locking.accesses;
    all.locking.most_accesses = std::max(all.locking.most_accesses, one.locking.most_accesses);
  }
  const auto each = [&](std::uint64_t value) {
    return static_cast<double>(value) / static_cast<double>(all.calls);
  };
  // Each arena's where memory is sought, where it is given back for another one, and where the peak
  // is forgotten; that of the arena that the block comes from; the plans'.
  const std::uint64_t bound = 3 * memo::Pool::useful_parts() + 2;
  std::printf(
      "  locks a call: %.2f, at most %llu (%llu allowed), a free at most %llu\n"
      "  a million calls: %.0f found one held, %.0f slept; accesses with one held: %.0f, at most "
      "%llu\n",
      each(all.locking.taken), static_cast<unsigned long long>(all.most),
      static_cast<unsigned long long>(bound), static_cast<unsigned long long>(all.most_freed),
      1e6 * each(all.locking.missed), 1e6 * each(all.locking.slept), each(all.locking.accesses),
      static_cast<unsigned long long>(all.locking.most_accesses));
  expect(all.most <= bound, "a call takes more locks than there are reasons for");
  expect(all.most_freed == 0, "a free takes a lock");
}

// Whether the case succeeds, in a child.
bool succeeds(const char* name, void (*run)(unsigned), unsigned threads) {
  std::printf("%s, %u threads\n", name, threads);
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    alarm(300);
    run(threads);
    std::fflush(stdout);
    _exit(g_failed ? 1 : 0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return child > 0 && status == 0;
}

}  // namespace

int main() {
  // Each thread gets a slab, also where the machine has few processors.
  memo::tuning::kSlabsPerProcessor = accesses::kMaxThreads;
  // And keeps it: a busy machine may not run a thread for seconds.
  memo::tuning::kIdle = memo::Nanos{3'600'000'000'000};
  memo::tuning::kAtRest = memo::Nanos{3'600'000'000'000};
  int passed = 0;
  int failed = 0;
  for (const unsigned threads : {1U, 2U, 8U, 64U}) {
    (succeeds("served by plans", share_nothing, threads) ? passed : failed) += 1;
  }
  for (const unsigned threads : {1U, 16U, 64U}) {
    (succeeds("served by the pool", wait_little, threads) ? passed : failed) += 1;
  }
  std::printf("%d passed, %d failed\n", passed, failed);
  return failed == 0 ? 0 : 1;
}
