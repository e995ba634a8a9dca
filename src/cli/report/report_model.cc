// Periods, plans and live bytes for the report. Cold.
#include "src/cli/report/report_model.h"

#include <algorithm>

#include "dsa/planner.h"
#include "src/base/units.h"
#include "src/cli/trace/rehearsal.h"
#include "src/follow/plan.h"
#include "src/learn/find_period.h"
#include "src/learn/lifetimes.h"
#include "src/learn/symbolic.h"

namespace memo::cli {
namespace {

constexpr double kPatience = 300;  // seconds; 50,000 blocks take a pass 0.1 s of processor time

struct Choice {
  std::optional<Period> period;
  std::optional<SymbolicInput> symbolic;  // instead: iterations of changing shape
  std::span<const Allocation> stream;     // the part of the stream whose end repeats
};

// What the library would serve on trial, since it has not repeated for long: none if that fails
// before the stream's end.
std::optional<Period> period_on_trial(const Stream& stream, const std::atomic<bool>* stop) {
  Analyses analyses;
  const bool done = rehearse({{0, stream}}, {.threshold = 1, .stop = stop}, analyses);
  return done && analyses[0].repeats ? analyses[0].period : std::nullopt;
}

// The period of the stream's end, of sizes or else of call sites. What a program allocates after
// its loop hides it, so that shorter and shorter parts of the stream are tried.
Choice choose_period(const Stream& stream, const std::atomic<bool>* stop) {
  const std::span<const Allocation> all = stream.allocations;
  if (const auto period = find_period(all)) {
    return {period, {}, all};
  }
  for (const std::size_t cut : kCuts) {
    const auto part = all.first(all.size() - all.size() / cut);
    if (const auto period = find_period(part)) {
      return {period, {}, part};
    }
  }
  if (const auto period = find_period_told(all, stream.marks)) {
    return {period, {}, all};
  }
  const auto symbolic = find_changing_shapes(all);
  return {symbolic ? std::nullopt : period_on_trial(stream, stop), symbolic, all};
}

std::uint64_t round_up(std::uint64_t size) {
  return bytes_of(std::max(Granules{1}, granules_of(size)));
}

MapBlock block_of(const Allocation& allocation, std::size_t index, const dsa::Buffer& buffer) {
  MapBlock block;
  block.allocation = static_cast<std::uint32_t>(index);
  block.lower = buffer.lower;
  block.upper = buffer.upper;
  if (!buffer.gaps.empty()) {
    block.gap = buffer.gaps.front();
  }
  block.size = allocation.size;
  block.site = allocation.site;
  block.op = allocation.op;
  return block;
}

// One iteration, in its last complete copy.
dsa::Problem periodic_problem(std::span<const Allocation> stream, const Period& period,
                              ThreadMap& map) {
  PlanInput input = plan_input(stream, period);
  map.period = input.period;
  const std::size_t cycle = std::size_t{input.period.length} * input.period.unroll;
  const std::size_t copies = (stream.size() - input.period.first) / cycle;
  const std::size_t start = input.period.first + (copies > 0 ? copies - 1 : 0) * cycle;
  map.steps = static_cast<dsa::Time>(cycle);
  map.lower_bound = input.lower_bound;
  map.unplanned = (cycle - input.step_of.size()) / input.period.unroll;
  for (std::size_t i = 0; i < input.step_of.size(); ++i) {
    const std::size_t index = std::min(start + input.step_of[i], stream.size() - 1);
    map.blocks.push_back(block_of(stream[index], index, input.problem.buffers[i]));
  }
  return std::move(input.problem);
}

// A block as it was asked for, alive in [lower, upper).
void add_block(std::span<const Allocation> stream, std::size_t index, dsa::Time lower,
               dsa::Time upper, dsa::Problem& problem, ThreadMap& map) {
  const Allocation& allocation = stream[index];
  dsa::Buffer buffer;
  buffer.lower = lower;
  buffer.upper = upper;
  buffer.size = static_cast<dsa::Bytes>(round_up(allocation.size));
  buffer.alignment = std::max<dsa::Bytes>(kGranule, dsa::Bytes{1} << allocation.alignment_log2);
  map.blocks.push_back(block_of(allocation, index, buffer));
  problem.buffers.push_back(std::move(buffer));
}

// Sizes change from iteration to iteration: the largest one that rules were made of.
dsa::Problem changing_problem(std::span<const Allocation> stream, const SymbolicInput& input,
                              ThreadMap& map) {
  dsa::Problem problem;
  map.period = input.period;
  map.changing = true;
  map.steps = input.period.length;
  for (std::size_t i = 0; i < input.steps.size(); ++i) {
    const SymbolicStep& step = input.steps[i];
    if (step.planned) {
      const auto lower = static_cast<dsa::Time>(i);
      add_block(stream, input.reference + i, lower, lower + step.lifetime, problem, map);
    }
  }
  map.unplanned = input.steps.size() - map.blocks.size();
  map.lower_bound = static_cast<std::uint64_t>(dsa::lower_bound(problem));
  return problem;
}

// Nothing repeats: the whole stream with the lifetimes that were recorded.
dsa::Problem whole_problem(std::span<const Allocation> stream, ThreadMap& map) {
  dsa::Problem problem;
  map.steps = static_cast<dsa::Time>(stream.size());
  for (std::size_t i = 0; i < stream.size(); ++i) {
    const auto lower = static_cast<dsa::Time>(i);
    const auto upper = std::clamp<dsa::Time>(stream[i].death, lower + 1, map.steps);
    add_block(stream, i, lower, upper, problem, map);
  }
  map.lower_bound = static_cast<std::uint64_t>(dsa::lower_bound(problem));
  return problem;
}

std::vector<std::uint64_t> live_bytes(const Stream& stream) {
  std::vector<std::uint64_t> live(std::min(kLiveParts, stream.events.size()));
  std::uint64_t now = 0;
  for (std::size_t i = 0; i < stream.events.size(); ++i) {
    const std::uint64_t size = stream.allocations[stream.events[i].allocation].size;
    now = stream.events[i].is_free ? now - size : now + size;
    std::uint64_t& part = live[i * live.size() / stream.events.size()];
    part = std::max(part, now);
  }
  return live;
}

ThreadMap make_map(std::uint32_t thread, const Stream& stream, const ModelOptions& options) {
  ThreadMap map;
  map.thread = thread;
  map.allocations = stream.allocations.size();
  for (const Allocation& allocation : stream.allocations) {
    map.bytes += allocation.size;
  }
  map.live = live_bytes(stream);
  const Choice choice = choose_period(stream, options.stop);
  const dsa::Problem problem = choice.period ? periodic_problem(choice.stream, *choice.period, map)
                               : choice.symbolic
                                   ? changing_problem(choice.stream, *choice.symbolic, map)
                                   : whole_problem(stream.allocations, map);
  const std::optional<dsa::Plan> plan = plan_within(problem, options);
  if (!plan) {
    map.blocks.clear();
    map.lower_bound = 0;
    return map;
  }
  map.height = static_cast<std::uint64_t>(plan->height);
  for (std::size_t i = 0; i < map.blocks.size(); ++i) {
    map.blocks[i].offset = static_cast<std::uint64_t>(plan->offsets[i]);
  }
  return map;
}

}  // namespace

std::optional<dsa::Plan> plan_within(const dsa::Problem& problem, const ModelOptions& options) {
  dsa::Options limits;
  limits.seconds = options.seconds;
  limits.stop = options.stop;
  dsa::Outcome outcome = dsa::find_planner(options.planner)->run(problem, limits);
  if (!outcome.plan) {
    // A busy machine, or a planner that cannot: one pass of a fast one, however long it takes.
    limits.seconds = kPatience;
    limits.stop = nullptr;
    outcome = dsa::find_planner("skyline")->run(problem, limits);
  }
  return outcome.plan;
}

std::vector<ThreadMap> make_maps(const Streams& streams, const ModelOptions& options) {
  std::vector<ThreadMap> maps;
  for (const auto& [thread, stream] : streams) {
    if (!stream.allocations.empty()) {
      maps.push_back(make_map(thread, stream, options));
    }
  }
  std::stable_sort(maps.begin(), maps.end(), [](const ThreadMap& left, const ThreadMap& right) {
    return left.bytes > right.bytes;
  });
  return maps;
}

}  // namespace memo::cli
