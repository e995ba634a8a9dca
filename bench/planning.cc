// Planning time against the number of buffers, of a stream as a network leaves it: most blocks live
// for a few steps, one in sixteen for a good part of the iteration, sizes spread over five octaves.
// `over_bound` is the height over the lower bound; portfolio has the time that the library gives
// it.
#include <benchmark/benchmark.h>
#include <random>

#include "dsa/planner.h"

namespace {

constexpr double kCallerSeconds = 0.02;  // MEMOMALLOC_PLAN_TIME

dsa::Problem stream_of(std::int64_t count) {
  std::mt19937_64 random(static_cast<std::uint64_t>(count));
  dsa::Problem problem;
  for (std::int64_t birth = 0; birth < count; ++birth) {
    const std::int64_t longest = birth % 16 == 0 ? count / 4 + 2 : 6;
    const std::int64_t life = 1 + static_cast<std::int64_t>(random()) % longest;
    const std::int64_t size = (16 + static_cast<std::int64_t>(random() % 16)) << (random() % 6);
    problem.buffers.push_back({.lower = birth,
                               .upper = birth + 1 + (life < 0 ? -life : life),
                               .size = size * 4096,
                               .alignment = 4096});
  }
  return problem;
}

void planning(benchmark::State& state, const char* name) {
  const dsa::Problem problem = stream_of(state.range(0));
  const dsa::Planner* planner = dsa::find_planner(name);
  if (planner == nullptr) {
    state.SkipWithError("no such planner");
    return;
  }
  double over_bound = 0;
  for (auto _ : state) {
    const dsa::Outcome outcome = planner->run(problem, {.seconds = kCallerSeconds});
    if (outcome.plan) {
      over_bound =
          static_cast<double>(outcome.plan->height) / static_cast<double>(outcome.lower_bound);
    }
  }
  state.counters["over_bound"] = over_bound;
}

void sizes(benchmark::internal::Benchmark* benchmark) {
  benchmark->RangeMultiplier(10)->Range(100, 100'000)->Unit(benchmark::kMillisecond);
}
BENCHMARK_CAPTURE(planning, portfolio, "portfolio")->Apply(sizes);
BENCHMARK_CAPTURE(planning, greedy_by_size, "greedy-by-size")->Apply(sizes);
BENCHMARK_CAPTURE(planning, skyline, "skyline")->Apply(sizes);

}  // namespace

BENCHMARK_MAIN();
