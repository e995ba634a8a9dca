#include "src/learn/learn.h"

#include <catch2/catch.hpp>
#include <memory>

#include "dsa/planner.h"
#include "dsa/validate.h"
#include "src/base/guard.h"
#include "src/cli/trace/trace_reader.h"
#include "src/learn/lifetimes.h"
#include "tests/learn/feed.h"

namespace memo {
namespace {

using test::StreamBuilder;

Plan learned(const std::vector<Allocation>& stream, Period* period = nullptr,
             const LearnOptions& options = {}) {
  const RecursionGuard guard;
  return learn(guard, stream, options, period);
}

// Every planned block of the stream is put where the schedule says, step by step, and must find all
// its granules free: the schedule's proof by serving.
void check_serves(const std::vector<Allocation>& stream, const Schedule& schedule,
                  const Period& period) {
  std::vector<std::size_t> owner(schedule.height / kGranule, SIZE_MAX);
  std::size_t clashes = 0;
  for (std::size_t i = period.first; i < stream.size(); ++i) {
    const Step& step = schedule.steps[(i - period.first) % schedule.count];
    REQUIRE(step.size == stream[i].size);
    if (step.offset == kUnplanned) {
      continue;
    }
    const std::size_t end = (step.offset + step.size + kGranule - 1) / kGranule;
    REQUIRE(end * kGranule <= schedule.height);
    for (std::size_t granule = step.offset / kGranule; granule < end; ++granule) {
      const std::size_t before = owner[granule];
      clashes += static_cast<std::size_t>(before != SIZE_MAX && stream[before].death > i);
      owner[granule] = i;
    }
  }
  CHECK(clashes == 0);
}

TEST_CASE("learn: recorded programs are planned at their load and served whole", "[learn]") {
  struct Case {
    const char* name;
    std::uint32_t thread;
  };
  const auto [name, thread] =
      GENERATE(Case{"mobilenet_v2_b8", 0}, Case{"resnet18_two_threads", 0},
               Case{"resnet18_two_threads", 1}, Case{"train_resnet18_b16", 0}, Case{"vit_b1", 0});
  INFO(name << " thread " << thread);
  cli::Streams streams;
  REQUIRE(cli::read_streams(std::string("tests/golden/traces/") + name + ".csv.gz", 65536,
                            streams) == "");
  const auto& stream = streams.at(thread).allocations;
  const auto found = test::feed(stream);
  REQUIRE(found);
  Period period;
  const auto schedule =
      learned(StreamBuilder::cut(stream, found->after), &period, {.plan_milliseconds = 1000});
  REQUIRE(schedule);
  CHECK(period.length == found->period.length);
  CHECK(schedule->count == period.length * period.unroll);

  const PlanInput input = plan_input(stream, period);
  const auto rounded = static_cast<double>(dsa::lower_bound(input.problem));
  CHECK(static_cast<double>(schedule->height) <= 1.005 * rounded);
  CHECK(schedule->lower_bound <= schedule->height);
  CHECK(static_cast<double>(schedule->lower_bound) >= rounded * 0.9);
  check_serves(stream, *schedule, period);
}

TEST_CASE("learn: a wrapping stream is served whole", "[learn]") {
  const auto seed = GENERATE(range(std::uint64_t{1}, std::uint64_t{11}));
  INFO("seed " << seed);
  test::Random random(seed);
  auto network = test::some_network(random, 6, 8);
  network.residual = false;
  StreamBuilder builder;
  test::Trainer trainer(network);
  for (int i = 0; i < 14; ++i) {
    trainer.step(builder);
  }
  const auto found = test::feed(builder.stream);
  REQUIRE(found);
  Period period;
  const auto schedule = learned(builder.prefix(found->after), &period);
  REQUIRE(schedule);
  check_serves(builder.stream, *schedule, period);
}

TEST_CASE("learn: blocks kept for iterations are served by an unrolled schedule", "[learn]") {
  test::Random random(2);
  const auto network = test::some_network(random, 4, 10);
  StreamBuilder builder;
  std::vector<StreamBuilder::Block> results;
  for (int i = 0; i < 60; ++i) {
    test::infer(builder, network);
    results.push_back(builder.allocate(1 << 20));
    builder.allocate(4096);  // a leak
    if (results.size() > 2) {
      builder.free(results[results.size() - 3]);
    }
  }
  Period period;
  const auto schedule = learned(builder.stream, &period);
  REQUIRE(schedule);
  CHECK(period.length == network.calls() + 2);
  CHECK(period.unroll == 3);
  CHECK(schedule->count == 3 * period.length);
  std::uint32_t unplanned = 0;
  for (std::uint32_t i = 0; i < schedule->count; ++i) {
    unplanned += static_cast<std::uint32_t>(schedule->steps[i].offset == kUnplanned);
  }
  CHECK(unplanned == 3);
  check_serves(builder.stream, *schedule, period);
}

TEST_CASE("learn: the options are followed", "[learn]") {
  test::Random random(4);
  const auto network = test::some_network(random, 3, 5);
  StreamBuilder builder;
  std::vector<std::uint32_t> marks;
  for (int i = 0; i < 2; ++i) {
    marks.push_back(static_cast<std::uint32_t>(builder.stream.size()));
    test::infer(builder, network);
  }
  marks.push_back(static_cast<std::uint32_t>(builder.stream.size()));
  CHECK_FALSE(learned(builder.stream));
  CHECK(learned(builder.stream, nullptr, {.marks = marks}));
  CHECK(learned(builder.stream, nullptr, {.planner = "no such planner", .marks = marks}));
  test::infer(builder, network);
  test::infer(builder, network);
  CHECK(learned(builder.stream));
  CHECK_FALSE(learned(builder.stream, nullptr, {.min_run = 1000}));
}

TEST_CASE("learn: nothing to learn gives no schedule", "[learn]") {
  CHECK_FALSE(learned({}));
  StreamBuilder builder;
  for (int i = 0; i < 3000; ++i) {
    builder.allocate(65536 + static_cast<std::uint64_t>(i % 30) * 64);
  }
  CHECK_FALSE(learned(builder.stream));  // repeats, but nothing ever dies
}

TEST_CASE("learn: a plan above the bound is searched for a lower one with the same steps",
          "[learn]") {
  cli::Streams streams;
  REQUIRE(cli::read_streams("tests/golden/traces/train_resnet18_b16.csv.gz", 65536, streams) == "");
  const auto& stream = streams.at(0).allocations;
  const auto found = test::feed(stream);
  REQUIRE(found);
  Period period;
  const auto poor = learned(StreamBuilder::cut(stream, found->after), &period, {.planner = "bump"});
  REQUIRE(poor);
  const RecursionGuard guard;
  const Plan better = improve(guard, *poor, 5);
  REQUIRE(better);
  CHECK(better->height < poor->height);
  REQUIRE(better->count == poor->count);
  for (std::uint32_t i = 0; i < poor->count; ++i) {
    REQUIRE(better->steps[i].size == poor->steps[i].size);
    REQUIRE((better->steps[i].offset == kUnplanned) == (poor->steps[i].offset == kUnplanned));
  }
  check_serves(stream, *better, period);
  SECTION("the bound is not searched below") {
    CHECK_FALSE(improve(guard, *better, 5));
  }
  SECTION("nor is a plan whose lifetimes are not known") {
    std::vector<Step> steps(poor->steps, poor->steps + poor->count);
    steps[0].lifetime = 0;
    const Schedule unknown{steps.data(), poor->count, poor->height, poor->lower_bound};
    CHECK_FALSE(improve(guard, unknown, 5));
  }
}

}  // namespace
}  // namespace memo
