// What a call costs, on whatever allocator is loaded: run it plain, and under LD_PRELOAD, in turn.
//   build/bench/hook_overhead; LD_PRELOAD=build/libmemomalloc.so build/bench/hook_overhead
// A pair of a large size repeats, so that under the library it is served from the slab after some
// hundred calls; the benchmark's warm-up is longer than that.
#include <benchmark/benchmark.h>
#include <cstdlib>

namespace {

void pair_of(benchmark::State& state) {
  const auto size = static_cast<std::size_t>(state.range(0));
  for (int i = 0; i < 4096; ++i) {  // learned before the clock starts
    void* block = std::malloc(size);
    benchmark::DoNotOptimize(block);
    std::free(block);
  }
  for (auto _ : state) {
    void* block = std::malloc(size);
    benchmark::DoNotOptimize(block);
    std::free(block);
  }
}
BENCHMARK(pair_of)->Arg(64)->Arg(4096)->Arg(64 << 10)->Arg(1 << 20)->Arg(16 << 20);
BENCHMARK(pair_of)->Name("contended")->Arg(64)->Arg(1 << 20)->ThreadRange(1, 8);

// A pair of which no two follow each other with the same size: served by no plan.
void unordered_pair(benchmark::State& state) {
  std::uint64_t random = 1;
  for (auto _ : state) {
    random = random * 6364136223846793005ULL + 1442695040888963407ULL;
    void* block = std::malloc((64U << 10) + (random >> 44));
    benchmark::DoNotOptimize(block);
    std::free(block);
  }
}
BENCHMARK(unordered_pair);

}  // namespace

BENCHMARK_MAIN();
