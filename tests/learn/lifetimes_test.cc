#include "src/learn/lifetimes.h"

#include <catch2/catch.hpp>

#include "dsa/planner.h"
#include "dsa/validate.h"
#include "src/follow/plan.h"
#include "tests/learn/stream_builder.h"

namespace memo {
namespace {

using test::StreamBuilder;

constexpr std::uint64_t kSize = 100000;  // 25 granules, not whole
constexpr dsa::Bytes kRounded = 25 * dsa::Bytes{kGranule};

TEST_CASE("lifetimes: a block that dies within its iteration", "[learn]") {
  StreamBuilder builder;
  for (int i = 0; i < 3; ++i) {
    const auto a = builder.allocate(kSize, 14);
    builder.pass(kSize);
    builder.free(a);
  }
  const PlanInput input = plan_input(builder.stream, {0, 2, 1});
  REQUIRE(input.problem.buffers.size() == 2);
  const dsa::Buffer& buffer = input.problem.buffers[0];
  CHECK(buffer.lower == 0);
  CHECK(buffer.upper == 2);
  CHECK(buffer.size == kRounded);
  CHECK(buffer.alignment == 1 << 14);
  CHECK(input.problem.buffers[1].alignment == kGranule);
  CHECK(buffer.gaps.empty());
  CHECK(input.lower_bound == 2 * kSize);
  CHECK(input.wrapping == 0);
  CHECK(input.period.unroll == 1);
}

TEST_CASE("lifetimes: a block freed in the next iteration wraps with a gap", "[learn]") {
  StreamBuilder builder;
  std::optional<StreamBuilder::Block> gradient;
  for (int i = 0; i < 4; ++i) {
    builder.pass(kSize);
    if (gradient) {
      builder.free(*gradient);
    }
    builder.pass(2 * kSize);
    gradient = builder.allocate(kSize);
    builder.pass(kSize);
  }
  // The gradient is born at step 2 of 4 and dies before step 1 of the next iteration.
  const PlanInput input = plan_input(builder.stream, {0, 4, 1});
  REQUIRE(input.problem.buffers.size() == 4);
  const dsa::Buffer& buffer = input.problem.buffers[2];
  CHECK(buffer.lower == 0);
  CHECK(buffer.upper == 4);
  CHECK(buffer.gaps == std::vector<dsa::Interval>{{1, 2}});
  CHECK(input.wrapping == 1);
  CHECK(input.lower_bound == 2 * kSize);
  CHECK(bool(dsa::validate(input.problem)));
}

TEST_CASE("lifetimes: a block that lives for a period or longer unrolls it", "[learn]") {
  const auto kept = GENERATE(std::uint32_t{1}, std::uint32_t{2}, std::uint32_t{3});
  StreamBuilder builder;
  std::vector<StreamBuilder::Block> results;
  for (int i = 0; i < 12; ++i) {
    builder.pass(kSize);
    results.push_back(builder.allocate(kSize));
    if (results.size() > kept) {
      builder.free(results[results.size() - 1 - kept]);
    }
  }
  // Each result lives until the one `kept` iterations later has been allocated.
  const PlanInput input = plan_input(builder.stream, {0, 2, 1});
  CHECK(input.period.unroll == kept + 1);
  CHECK(input.problem.buffers.size() == 2 * (kept + 1));
  CHECK(input.wrapping >= kept);
  CHECK(input.lower_bound == (kept + 1) * kSize);
  CHECK(bool(dsa::validate(input.problem)));
}

TEST_CASE("lifetimes: blocks that never die, or live too long, are left out", "[learn]") {
  StreamBuilder builder;
  std::vector<StreamBuilder::Block> results;
  for (int i = 0; i < 12; ++i) {
    builder.pass(kSize);
    builder.allocate(kSize);
    results.push_back(builder.allocate(kSize));
    if (results.size() > 5) {
      builder.free(results[results.size() - 6]);
    }
  }
  const PlanInput input = plan_input(builder.stream, {0, 3, 1});
  CHECK(input.period.unroll == 1);
  REQUIRE(input.step_of.size() == 1);
  CHECK(input.step_of[0] == 0);
  CHECK(input.lower_bound == kSize);
}

TEST_CASE("lifetimes: one odd copy makes no lifetime too short", "[learn]") {
  StreamBuilder builder;
  constexpr int kCalls = 60;  // long enough for three copies to be looked at
  for (int i = 0; i < 6; ++i) {
    const auto a = builder.allocate(kSize);
    for (int j = 1; j < kCalls; ++j) {
      builder.pass(kSize);
      if (j == (i == 4 ? 10 : 20)) {
        builder.free(a);
      }
    }
  }
  const auto lives = lifetimes(builder.stream, {0, kCalls, 1});
  CHECK(lives[0].steps == 21);
  CHECK_FALSE(lives[0].regular);
  CHECK(lives[1].regular);
}

TEST_CASE("lifetimes: an odd first iteration is not looked at", "[learn]") {
  StreamBuilder builder;
  constexpr int kCalls = 60;
  for (int i = 0; i < 5; ++i) {
    const auto a = builder.allocate(kSize);
    for (int j = 1; j < kCalls; ++j) {
      builder.pass(kSize);
      if (j == (i == 0 ? 50 : 20)) {
        builder.free(a);
      }
    }
  }
  const auto lives = lifetimes(builder.stream, {0, kCalls, 1});
  CHECK(lives[0].steps == 21);
  CHECK(lives[0].regular);
}

TEST_CASE("lifetimes: a block may live for three iterations, one of six has no place", "[learn]") {
  StreamBuilder builder;
  for (std::uint32_t call = 0; call < 600; ++call) {
    const auto block = builder.allocate(kSize);
    builder.stream[block].death = block + (call % 10 == 0 ? 30 : call % 10 == 1 ? 60 : 1);
  }
  const auto lives = lifetimes(builder.stream, {0, 10, 1});
  CHECK(lives[0].steps == 30);
  CHECK(lives[1].steps == 0);
}

TEST_CASE("lifetimes: the same calls before the period tell, others do not", "[learn]") {
  for (const bool same : {true, false}) {
    StreamBuilder builder;
    std::vector<StreamBuilder::Block> blocks;
    for (std::uint64_t i = 0; i < 8; ++i) {
      if (i >= 3) {
        builder.free(blocks[i - 3]);
      }
      blocks.push_back(builder.allocate(kSize * (1 + i % 4 + (same || i >= 3 ? 0 : 4))));
    }
    // The period is calls 3 to 6, of which the last two have not died yet.
    const std::vector<Lifetime> lives = lifetimes(builder.stream, {3, 4, 1});
    CHECK(lives[1].steps == 3);
    CHECK(lives[2].steps == (same ? 3 : 0));
    CHECK(lives[3].steps == (same ? 3 : 0));
  }
}

TEST_CASE("lifetimes: blocks still alive say nothing until they are overdue", "[learn]") {
  StreamBuilder builder;
  constexpr std::uint32_t kCalls = 60;
  for (int i = 0; i < 4; ++i) {
    const auto a = builder.allocate(kSize);
    for (std::uint32_t j = 1; j < kCalls; ++j) {
      builder.pass(kSize);
      if (j == 20) {
        builder.free(a);
      }
    }
  }
  CHECK(lifetimes(builder.prefix(3 * kCalls + 10), {0, kCalls, 1})[0].regular);
  builder.stream[3 * kCalls].death = kAlive;
  CHECK_FALSE(lifetimes(builder.prefix(3 * kCalls + 30), {0, kCalls, 1})[0].regular);
}

TEST_CASE("lifetimes: a weight before the loop does not count as a copy that lives on", "[learn]") {
  const bool dies_once = GENERATE(false, true);
  StreamBuilder builder;
  builder.allocate(2 * kSize);  // equal to the loop's last block
  for (int i = 0; i < (dies_once ? 2 : 3); ++i) {
    builder.pass(kSize);
    builder.pass(2 * kSize);
  }
  const Lifetime life = lifetimes(builder.prefix(builder.stream.size() - 1), {0, 2, 1})[0];
  CHECK(life.regular == !dies_once);
  CHECK(life.steps == 1);
}

TEST_CASE("lifetimes: floors are what is alive between the calls", "[learn]") {
  StreamBuilder builder;
  for (int i = 0; i < 3; ++i) {
    const auto a = builder.allocate(1000);
    builder.pass(10);
    builder.free(a);
    builder.pass(100);
  }
  const Period period{0, 3, 1};
  const auto lives = lifetimes(builder.stream, period);
  const auto cycle = std::span(builder.stream).first(3);
  CHECK(floors(cycle, lives) == std::vector<std::uint64_t>{0, 1000, 0});
}

TEST_CASE("lifetimes: the bound is that of the unrolled problem, sizes as asked for", "[learn]") {
  const auto seed = GENERATE(range(std::uint64_t{1}, std::uint64_t{21}));
  INFO("seed " << seed);
  test::Random random(seed);
  const std::uint32_t length = 5 + static_cast<std::uint32_t>(random() % 40);
  std::vector<std::uint32_t> lives(length);
  std::vector<std::uint64_t> sizes(length);
  for (std::uint32_t i = 0; i < length; ++i) {
    lives[i] = 1 + static_cast<std::uint32_t>(random() % (3 * length));
    sizes[i] = kGranule * (1 + random() % 64);  // whole granules: rounding changes nothing
  }
  std::vector<Allocation> stream(std::size_t{length} * 12);
  for (std::uint32_t i = 0; i < stream.size(); ++i) {
    stream[i].size = sizes[i % length];
    stream[i].death = i + lives[i % length];
  }
  const PlanInput input = plan_input(StreamBuilder::cut(stream, stream.size()), {0, length, 1});
  CHECK(bool(dsa::validate(input.problem)));
  CHECK(input.problem.buffers.size() == std::size_t{length} * input.period.unroll);
  CHECK(input.lower_bound == static_cast<std::uint64_t>(dsa::lower_bound(input.problem)));
}

TEST_CASE("lifetimes: absurd sizes are left out", "[learn]") {
  StreamBuilder builder;
  for (int i = 0; i < 3; ++i) {
    builder.pass(UINT64_MAX - 5);
    builder.pass(kSize);
  }
  CHECK(plan_input(builder.stream, {0, 2, 1}).step_of == std::vector<std::uint32_t>{1});
}

// Whether the first position of a loop of `length` calls is regular, where only its copy `back` from
// the last lived for longer.
bool regular(std::uint32_t length, std::uint32_t back) {
  constexpr std::uint32_t kCopies = 40;
  StreamBuilder builder;
  for (std::uint32_t copy = 0; copy < kCopies; ++copy) {
    const auto first = builder.allocate(kSize);
    builder.free(first);
    for (std::uint32_t call = 1; call < length; ++call) {
      builder.pass(kSize + call * kGranule);
    }
    builder.stream[first].death += copy == kCopies - back ? 1 : 0;
  }
  return lifetimes(builder.stream, {0, length, 1})[0].regular;
}

TEST_CASE("lifetimes: the latest copies tell, more of them where an iteration is short",
          "[learn]") {
  CHECK_FALSE(regular(150, 3));
  CHECK(regular(150, 5));
  CHECK_FALSE(regular(10, 10));
  CHECK(regular(10, 16));
}

}  // namespace
}  // namespace memo
