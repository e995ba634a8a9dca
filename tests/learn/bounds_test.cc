// Where a loop stops being believed: streams on both sides of a bound.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <vector>

#include "src/learn/find_period.h"
#include "src/learn/symbolic.h"
#include "tests/learn/stream_builder.h"
#include "tests/support/process.h"

namespace memo {
namespace {

using testing::below;
using testing::Random;

std::vector<Allocation> temporaries(std::uint32_t length, std::uint32_t copies) {
  test::StreamBuilder builder;
  for (std::uint32_t call = 0; call < length * copies; ++call) {
    builder.pass(65'536 + 4096 * (call % length));
  }
  return builder.stream;
}

TEST_CASE("period: a loop of a few calls must run for longer than one of a dozen", "[learn]") {
  CHECK_FALSE(find_period(temporaries(6, 20)));
  CHECK(find_period(temporaries(6, 50)));
  CHECK(find_period(temporaries(12, 10)));
}

// Iterations of equal layers, each with a result that is kept until the next one's.
std::vector<Allocation> layered(std::uint32_t layers, std::uint32_t calls,
                                std::uint32_t iterations = 4) {
  test::StreamBuilder builder;
  for (std::uint32_t iteration = 0; iteration < iterations; ++iteration) {
    const auto result = builder.allocate(1 << 20);
    if (iteration != 0) {
      builder.free(result - 1 - layers * calls - 1);
    }
    for (std::uint32_t call = 0; call < layers * calls; ++call) {
      builder.pass(65'536 + 4096 * (call % calls));
    }
    builder.pass(1 << 21);
  }
  return builder.stream;
}

TEST_CASE("period: layers of some dozens of calls make an iteration, longer parts do not",
          "[learn]") {
  CHECK(find_period(layered(4, 50)));
  CHECK_FALSE(find_period(layered(3, 100)));
}

TEST_CASE("period: layers have some calls, what is shorter does not tell", "[learn]") {
  CHECK(find_period(layered(4, 6)));
  CHECK_FALSE(find_period(layered(3, 3, 10)));
}

TEST_CASE("period: more copies than networks have layers are iterations whatever they hold",
          "[learn]") {
  CHECK(find_period(layered(1, 7, 80)));
  CHECK_FALSE(find_period(layered(1, 7, 50)));
}

// A loop of `length` blocks of one size, which only their lifetimes tell apart.
std::vector<Allocation> one_size(std::uint32_t length) {
  Random random(1);
  std::vector<std::uint32_t> lives;
  for (std::uint32_t call = 0; call < length; ++call) {
    lives.push_back(1 + static_cast<std::uint32_t>(below(random, length - call)));
  }
  test::StreamBuilder builder;
  for (std::uint32_t call = 0; call < 700; ++call) {
    const auto block = builder.allocate(1 << 20);
    builder.stream[block].death = block + lives[call % length];
  }
  return builder.stream;
}

TEST_CASE("period: candidates are looked at for a few passes over the stream", "[learn]") {
  // Each shorter loop is a candidate, and costs 128 calls and three times its own.
  CHECK(find_period(one_size(25)));
  CHECK_FALSE(find_period(one_size(35)));
}

// Forty iterations of `calls` sizes that follow from a random number of tokens, but for `strange`
// calls, whose sizes follow from nothing; the sixth of the iteration `back` from the last was
// larger, too.
std::vector<Allocation> shaped(std::uint32_t calls, std::uint32_t strange = 0,
                               std::uint32_t back = 0) {
  Random random(2);
  test::StreamBuilder builder;
  for (std::uint32_t left = 40; left > 0; --left) {
    const std::uint64_t tokens = 100 + below(random, 300);
    for (std::uint32_t call = 0; call < calls; ++call) {
      std::uint64_t bytes = 4096 * tokens;
      if (call >= calls - strange) {
        bytes = (4096 * 380) + 8 * below(random, 10'000);
      }
      bytes += call == 5 && left == back ? 8192 : 0;
      builder.free(builder.allocate(bytes, 6, 1000 + call));
    }
  }
  return builder.stream;
}

TEST_CASE("symbolic: a loop of a dozen calls is a part, one of two dozen has a plan", "[learn]") {
  CHECK_FALSE(symbolic_input(shaped(12)));
  CHECK(symbolic_input(shaped(24)));
}

TEST_CASE("symbolic: rules hold for the last dozen iterations, not for what came before",
          "[learn]") {
  const auto rules = [](std::uint32_t back) {
    const auto input = symbolic_input(shaped(24, 0, back));
    REQUIRE(input);
    return std::none_of(input->steps.begin(), input->steps.end(),
                        [](const SymbolicStep& step) { return step.elastic; });
  };
  CHECK_FALSE(rules(12));
  CHECK(rules(20));
}

TEST_CASE("symbolic: a sixth of the bytes may follow no rule, a third may not", "[learn]") {
  CHECK(symbolic_input(shaped(24, 4)));
  CHECK_FALSE(symbolic_input(shaped(24, 8)));
}

}  // namespace
}  // namespace memo
