// What the parts cost by themselves, without the shim: matching and claiming, falling back,
// recording, the signature, learning.
#include <benchmark/benchmark.h>
#include <vector>

#include "src/base/guard.h"
#include "src/learn/learn.h"
#include "src/trace/recorder.h"
#include "src/trace/signature.h"
#include "tests/support/placements.h"

namespace {

// A schedule of `count` steps of one block each, of sizes that tell the steps apart.
struct Loop {
  explicit Loop(std::uint32_t count, std::uint64_t bytes) : steps(count) {
    std::uint64_t height = 0;
    for (std::uint32_t i = 0; i < count; ++i) {
      steps[i].size = bytes + i;
      steps[i].offset = 0;
      height = (bytes + count + memo::kGranule - 1) / memo::kGranule * memo::kGranule;
    }
    schedule = {steps.data(), count, height, height, 0};
    words.resize(memo::ContextIndex::words(count));
    index.build(schedule, words.data());
    state.resize(height / memo::kGranule + 8);
    length.resize(state.size());
    pages = memo::PageMap(state.data(), length.data());
    placer.start(&schedule, &index, memo::Cursor());
  }
  std::vector<memo::Step> steps;
  std::vector<std::uint32_t> words;
  std::vector<std::uint8_t> state;
  std::vector<std::uint32_t> length;
  memo::Schedule schedule;
  memo::ContextIndex index;
  memo::PageMap pages;
  memo::Placer placer;
};

void served_pair(benchmark::State& state) {
  const auto bytes = static_cast<std::uint64_t>(state.range(0));
  Loop loop(64, bytes);
  std::uint32_t step = 0;
  for (auto _ : state) {
    auto placement = memo::testing::place(loop.placer, bytes + step, 64, loop.pages);
    benchmark::DoNotOptimize(placement.offset);
    loop.pages.free(memo::granules_in(placement.offset));
    step = (step + 1) % 64;
  }
}
BENCHMARK(served_pair)->Arg(64 << 10)->Arg(1 << 20)->Arg(16 << 20);

void fallback(benchmark::State& state) {
  Loop loop(64, 1 << 20);
  for (auto _ : state) {
    benchmark::DoNotOptimize(memo::testing::place(loop.placer, 777, 64, loop.pages).miss);
  }
}
BENCHMARK(fallback);

void recorded_pair(benchmark::State& state) {
  constexpr std::uint32_t kCapacity = 1 << 16;
  static memo::Recorder recorder;
  static const bool prepared = recorder.prepare(kCapacity, false);
  if (!prepared) {
    state.SkipWithError("no memory for the recorder");
    return;
  }
  std::vector<std::uint64_t> words(16);
  memo::LiveTable table(words.data());
  for (auto _ : state) {
    if (recorder.full()) {
      recorder.restart();
    }
    const auto index = recorder.note({.size = 1 << 20, .site = 1}, 0);
    recorder.bind(index, 0x7f0000000000, table, memo::Granules{3});
    recorder.free(0x7f0000000000, table, memo::Granules{3}, 0);
  }
}
BENCHMARK(recorded_pair);

void signature(benchmark::State& state) {
  memo::load_unwinder();
  const memo::StackBounds stack = memo::find_stack_bounds();
  for (auto _ : state) {
    benchmark::DoNotOptimize(memo::stack_signature(stack));
  }
}
BENCHMARK(signature);

// The whole cold door, on four iterations of `count` blocks that each live for three steps.
void learning(benchmark::State& state) {
  const auto count = static_cast<std::uint32_t>(state.range(0));
  std::vector<memo::Allocation> stream;
  for (std::uint32_t i = 0; i < 4 * count; ++i) {
    stream.push_back({.size = (1U << 16) + i % count * 4096, .death = i + 3, .alignment_log2 = 6});
  }
  const memo::RecursionGuard guard;
  for (auto _ : state) {
    const memo::Plan plan = memo::learn(guard, stream, {});
    benchmark::DoNotOptimize(plan.get());
  }
}
BENCHMARK(learning)->RangeMultiplier(10)->Range(100, 10000)->Unit(benchmark::kMicrosecond);

}  // namespace

BENCHMARK_MAIN();
