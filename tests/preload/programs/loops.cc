// Loops that drive the library through all it does: a period is learned and served, sizes change
// with each iteration's shape, no two iterations are alike, threads come and go, a child goes on
// alone. Every block is filled and compared, so that a byte that is lost or shared shows. What it
// prints does not depend on what was refused: tests/refusal runs it while system calls fail.
// `loops idle` also goes slowly, and rests, for as long as the library's own thread needs to look
// for lower plans and left loops.
#include <array>
#include <cstdint>
#include <utility>

#include "support.h"

namespace {

constexpr unsigned kIterations = 24;

struct Block {
  unsigned char* start = nullptr;
  std::size_t bytes = 0;
  unsigned id = 0;
};

// Memory that the kernel has for everyone: a block that is not given is a fault of the library.
Block taken(void* start, std::size_t bytes) {
  static unsigned next_id = 0;
  CHECK(start != nullptr);
  const Block block{static_cast<unsigned char*>(start), bytes,
                    __atomic_add_fetch(&next_id, 1, __ATOMIC_RELAXED)};
  fill(block.start, bytes, block.id);
  return block;
}

void give(Block& block) {
  if (block.start != nullptr) {
    CHECK(filled(block.start, block.bytes, block.id));
    free(block.start);
  }
  block = {};
}

// A network of kSteps calls, each from a place of its own in the code.
constexpr unsigned kSteps = 18;
template <unsigned step>
[[gnu::noinline]] Block call(std::size_t bytes) {
  void* start = nullptr;
  if (step % 5 == 1) {
    start = calloc(1, bytes);
    CHECK(start == nullptr || all_zero(start, bytes));
  } else if (step % 5 == 3) {
    CHECK(posix_memalign(&start, 4096, bytes) == 0);
  } else {
    start = malloc(bytes);
  }
  asm volatile("" ::"i"(step));  // keeps the functions apart
  return taken(start, bytes);
}
template <unsigned... steps>
constexpr std::array<Block (*)(std::size_t), sizeof...(steps)> all_calls(
    std::integer_sequence<unsigned, steps...>) {
  return {call<steps>...};
}
constexpr auto kCalls = all_calls(std::make_integer_sequence<unsigned, kSteps>());

// One iteration: of each four blocks, three are freed four steps later and one at the end.
// `tokens` 0: sizes of its own; else all sizes follow from it.
void iterate(std::size_t tokens, unsigned seed) {
  Block blocks[kSteps];
  for (unsigned i = 0; i < kSteps; ++i) {
    const std::size_t unit = KIB(4) * (1 + (i * 7 + seed) % 11);
    blocks[i] = kCalls[i](tokens == 0 ? KIB(64) + unit : KIB(64) + tokens * unit / 8);
    if (i % 6 == 5) {  // the contents are kept as far as both reach
      const std::size_t longer = blocks[i].bytes + KIB(20);
      auto* moved = static_cast<unsigned char*>(realloc(blocks[i].start, longer));
      CHECK(moved != nullptr && filled(moved, blocks[i].bytes, blocks[i].id));
      blocks[i].start = moved;
    }
    if (i >= 4 && i % 4 != 0) {
      give(blocks[i - 4]);
    }
  }
  for (Block& block : blocks) {
    give(block);
  }
}

void periodic(unsigned seed) {
  for (unsigned i = 0; i < kIterations; ++i) {
    iterate(0, seed);
  }
}

void changing_shapes(unsigned seed) {
  for (unsigned i = 0; i < 4 * kIterations; ++i) {
    iterate(8 + (i * 13 + seed) % 29, seed);
  }
}

// Sizes of no order, some alive until the end, and one that is large for a while.
void without_order(unsigned seed) {
  Block kept[16];
  Block largest = taken(malloc(MIB(72)), MIB(1));
  std::uint64_t state = seed;
  for (unsigned i = 0; i < 400; ++i) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    give(kept[state >> 60]);
    const std::size_t bytes = KIB(64) + (state >> 33) % KIB(512);
    kept[state >> 60] = taken(malloc(bytes), bytes);
  }
  give(largest);
  for (Block& block : kept) {
    give(block);
  }
}

void* in_thread(void* seed) {
  periodic(static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(seed)));
  return nullptr;
}

void threads() {
  for (unsigned round = 0; round < 2; ++round) {
    pthread_t all[3];
    for (std::uintptr_t i = 0; i < 3; ++i) {
      CHECK(pthread_create(&all[i], nullptr, in_thread, reinterpret_cast<void*>(i + 1)) == 0);
    }
    periodic(round);
    for (pthread_t one : all) {
      CHECK(pthread_join(one, nullptr) == 0);
    }
  }
}

void everything() {
  periodic(0);
  threads();
  changing_shapes(1);
  without_order(2);
  periodic(3);
  periodic(0);
  if (memomalloc_release != nullptr) {
    memomalloc_release();
  }
  periodic(0);
  check_served();
}

// Blocks of the parent's are whole in the child, which frees them and goes on with the loop.
void in_child() {
  Block before[8];
  for (Block& block : before) {
    block = taken(malloc(KIB(300)), KIB(300));
  }
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    for (Block& block : before) {
      give(block);
    }
    periodic(0);
    threads();
    _exit(7);
  }
  periodic(0);
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
  for (Block& block : before) {
    give(block);
  }
}

}  // namespace

int main(int argc, char** argv) {
  everything();
  printf("loops ok\n");
  in_child();
  printf("child ok\n");
  if (argc > 1 && strcmp(argv[1], "idle") == 0) {
    periodic(4);
    for (unsigned i = 0; i < 20; ++i) {
      iterate(0, 4);
      usleep(100'000);
    }
    sleep(3);
    iterate(0, 4);
    printf("idle ok\n");
  }
  return 0;
}
