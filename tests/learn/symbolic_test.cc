#include "src/learn/symbolic.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <set>
#include <utility>

#include "dsa/planner.h"
#include "dsa/validate.h"
#include "src/base/guard.h"
#include "src/cli/trace/trace_reader.h"
#include "src/follow/layout.h"
#include "src/learn/learn.h"
#include "src/learn/lifetimes.h"
#include "tests/learn/stream_builder.h"
#include "tests/support/process.h"

namespace memo {
namespace {

using testing::below;
using testing::Random;
using Samples = std::vector<std::uint64_t>;

Samples of(const Samples& x, std::uint64_t (*size)(std::uint64_t)) {
  Samples result;
  for (const std::uint64_t first : x) {
    result.push_back(size(first));
  }
  return result;
}

TEST_CASE("symbolic: rules are found exactly or not at all", "[learn]") {
  const Samples x = {3072 * 50, 3072 * 131, 3072 * 7, 3072 * 128, 3072 * 50};
  SECTION("constant") {
    const auto rule = exact_rule(x, Samples(5, 4096));
    REQUIRE(rule);
    CHECK(rule->bytes(3072 * 500) == 4096);
  }
  SECTION("linear, with a rest") {
    const auto rule = exact_rule(x, of(x, [](std::uint64_t s) { return s * 4 / 3 + 64; }));
    REQUIRE(rule);
    CHECK(rule->bytes(3072 * 500) == std::uint64_t{4096} * 500 + 64);
    CHECK(rule->bytes(3072 * 1) == 4096 + 64);
  }
  SECTION("quadratic") {
    const auto rule =
        exact_rule(x, of(x, [](std::uint64_t s) { return 48 * (s / 3072) * (s / 3072); }));
    REQUIRE(rule);
    CHECK(rule->bytes(3072 * 1001) == std::uint64_t{48} * 1001 * 1001);
  }
  SECTION("none") {
    CHECK_FALSE(exact_rule(x, Samples{1 << 20, 1 << 21, 1 << 20, 1 << 23, 1 << 20}));
    CHECK_FALSE(exact_rule(x, Samples{7, 8, 9, 10, 8}));  // one first size, two sizes
  }
  SECTION("none without a sample that confirms it") {
    CHECK_FALSE(exact_rule(Samples{100, 200}, Samples{300, 600}));
    CHECK_FALSE(exact_rule(Samples{1, 2, 3}, Samples{10, 40, 90}));
    CHECK_FALSE(exact_rule(Samples(), Samples()));
  }
}

TEST_CASE("symbolic: an upper rule is nowhere below its samples", "[learn]") {
  const auto seed = GENERATE(range(1U, 20U));
  INFO("seed " << seed);
  Random random(seed);
  Samples x;
  Samples sizes;
  for (int k = 0; k < 10; ++k) {
    x.push_back(65'536 + below(random, 1 << 22));
    sizes.push_back(65'536 + below(random, 1 << 22));
  }
  const SizeRule rule = upper_rule(x, sizes);
  for (std::size_t k = 0; k < x.size(); ++k) {
    CHECK(rule.bytes(x[k]) >= sizes[k]);
  }
}

// A network whose sizes follow from the number of tokens, and its iterations for random numbers.
struct Network {
  struct Call {
    std::uint64_t per_token = 0;
    std::uint64_t per_pair = 0;  // of tokens
    std::uint32_t lifetime = 1;
  };
  std::vector<Call> calls;

  static Network random(Random& random, std::size_t count) {
    Network result;
    result.calls.push_back({3072, 0, 2});
    for (std::size_t i = 1; i < count; ++i) {
      result.calls.push_back({1024 * (1 + below(random, 12)), below(random, 4) == 0 ? 48U : 0U,
                              static_cast<std::uint32_t>(1 + below(random, 12))});
      Call& call = result.calls.back();
      call.lifetime = std::min(call.lifetime, static_cast<std::uint32_t>(count - i));
    }
    return result;
  }
  [[nodiscard]] std::uint64_t bytes(std::size_t i, std::uint64_t tokens) const {
    return calls[i].per_token * tokens + calls[i].per_pair * tokens * tokens;
  }
  // The calls of one iteration that are at least `least` bytes are put at the end of the stream.
  void run(test::StreamBuilder& builder, std::uint64_t tokens, std::uint64_t least) const {
    std::multimap<std::size_t, test::StreamBuilder::Block> alive;
    for (std::size_t i = 0; i < calls.size(); ++i) {
      if (bytes(i, tokens) >= least) {
        const auto block = builder.allocate(bytes(i, tokens), 0, 1000 + i);
        alive.emplace(i + calls[i].lifetime, block);
      }
      while (!alive.empty() && alive.begin()->first <= i + 1) {
        builder.free(alive.begin()->second);
        alive.erase(alive.begin());
      }
    }
  }
};

constexpr std::uint64_t kMinBytes = 65'536;

// Lays the plan out for `tokens` and checks it against the network.
void check_shape(const Network& network, const SymbolicPlan& plan, std::uint64_t tokens) {
  Layout layout;
  REQUIRE(layout.open(plan));
  REQUIRE(layout.lay_out(network.bytes(0, tokens), 1ULL << 40));
  const Schedule& schedule = *layout.schedule();
  dsa::Problem problem;
  dsa::Plan offsets;
  std::uint32_t at = 0;
  for (std::uint32_t i = 0; i < network.calls.size(); ++i) {
    const std::uint64_t bytes = network.bytes(i, tokens);
    if (bytes < kMinBytes) {
      CHECK(plan.hidden(StepIndex{i}, network.bytes(0, tokens)));
      continue;
    }
    REQUIRE(at < schedule.count);
    REQUIRE(schedule.steps[at].size == bytes);
    CHECK(layout.position_of(StepIndex{i}) == StepIndex{at});
    dsa::Buffer buffer;
    buffer.lower = i;
    buffer.upper = i + network.calls[i].lifetime;
    buffer.size = static_cast<dsa::Bytes>(bytes);
    buffer.alignment = kGranule;
    problem.buffers.push_back(buffer);
    offsets.offsets.push_back(static_cast<dsa::Offset>(schedule.steps[at].offset));
    offsets.height = std::max(offsets.height, offsets.offsets.back() + buffer.size);
    ++at;
  }
  CHECK(at == schedule.count);
  CHECK(static_cast<std::uint64_t>(offsets.height) <= schedule.height);
  CHECK(dsa::validate(problem, offsets));
  CHECK(schedule.lower_bound <= schedule.height);
}

TEST_CASE("symbolic: a learned network is laid out for lengths that were never seen", "[learn]") {
  const auto seed = GENERATE(range(1U, 11U));
  INFO("seed " << seed);
  Random random(seed);
  const Network network = Network::random(random, 60);
  test::StreamBuilder builder;
  for (int i = 0; i < 8; ++i) {
    network.run(builder, 100 + below(random, 400), kMinBytes);
  }
  LearnOptions options;
  options.least_bytes = kMinBytes;
  const RecursionGuard guard;
  Period period;
  const Plan schedule = learn_symbolic(
      guard, test::StreamBuilder::cut(builder.stream, builder.stream.size()), options, &period);
  REQUIRE(schedule);
  REQUIRE(schedule->symbolic != nullptr);
  CHECK(period.length == 60);
  CHECK(period.first % 60 == 0);
  CHECK_FALSE(improve(guard, *schedule, 1));
  for (const std::uint64_t tokens : Samples{64, 101, 333, 499, 700, 2000}) {
    INFO(tokens << " tokens");
    check_shape(network, *schedule->symbolic, tokens);
  }
  SECTION("calls that fall below the threshold are left out") {
    check_shape(network, *schedule->symbolic, 23);
  }
}

// The definition: at each birth, the nearest blocks alive above and below.
std::set<std::pair<std::uint32_t, std::uint32_t>> neighbours(const dsa::Problem& problem,
                                                             const dsa::Plan& plan) {
  std::set<std::pair<std::uint32_t, std::uint32_t>> result;
  const auto count = static_cast<std::uint32_t>(problem.buffers.size());
  for (std::uint32_t born = 0; born < count; ++born) {
    std::uint32_t above = count;
    std::uint32_t below = count;
    for (std::uint32_t i = 0; i < born; ++i) {
      if (problem.buffers[i].upper <= problem.buffers[born].lower) {
        continue;
      }
      if (plan.offsets[i] > plan.offsets[born]) {
        above = above == count || plan.offsets[i] < plan.offsets[above] ? i : above;
      } else {
        below = below == count || plan.offsets[i] > plan.offsets[below] ? i : below;
      }
    }
    if (above != count) {
      result.emplace(above, born);
    }
    if (below != count) {
      result.emplace(born, below);
    }
  }
  return result;
}

TEST_CASE("symbolic: what lies on what is found in n log n", "[learn]") {
  const auto seed = GENERATE(range(1U, 6U));
  INFO("seed " << seed);
  Random random(seed);
  // From blocks that hardly meet to 2000 that are all alive at the end.
  const std::uint64_t longest = std::uint64_t{4} << (2 * seed);
  dsa::Problem problem;
  dsa::Plan plan;
  std::vector<std::uint32_t> step_of;
  for (std::uint32_t i = 0; i < 2000; ++i) {
    dsa::Buffer buffer;
    buffer.lower = i;
    buffer.upper = i + 1 + static_cast<dsa::Time>(below(random, longest));
    buffer.size = 4096;
    problem.buffers.push_back(buffer);
    plan.offsets.push_back(dsa::Offset{4096} * i);
    step_of.push_back(i);
  }
  std::shuffle(plan.offsets.begin(), plan.offsets.end(), random);
  std::uint64_t looks = 0;
  std::set<std::pair<std::uint32_t, std::uint32_t>> found;
  for (const Support& support : supports(problem, plan, step_of, &looks)) {
    found.emplace(support.above.count(), support.below.count());
  }
  CHECK(found == neighbours(problem, plan));
  CHECK(looks <= 2000 * 4 * 11);  // 2 log2(n) comparisons for each one put in or taken out
}

TEST_CASE("symbolic: a network whose first sizes do not change has no symbolic plan", "[learn]") {
  Random random(3);
  const Network network = Network::random(random, 60);
  test::StreamBuilder builder;
  for (int i = 0; i < 8; ++i) {
    network.run(builder, i % 2 == 0 ? 200 : 300, kMinBytes);  // two shapes confirm no line
  }
  CHECK_FALSE(symbolic_input(test::StreamBuilder::cut(builder.stream, builder.stream.size())));
}

TEST_CASE("symbolic: sizes that grow by the same each time are layers, not iterations", "[learn]") {
  Random random(3);
  const Network network = Network::random(random, 60);
  test::StreamBuilder builder;
  for (std::uint64_t i = 0; i < 8; ++i) {
    network.run(builder, 200 + 32 * i, kMinBytes);
  }
  CHECK_FALSE(symbolic_input(test::StreamBuilder::cut(builder.stream, builder.stream.size())));
}

TEST_CASE("symbolic: sizes that follow no rule get slots, unless they are most", "[learn]") {
  Random random(4);
  const bool most = GENERATE(false, true);
  Network network = Network::random(random, 40);
  test::StreamBuilder builder;
  for (int i = 0; i < 10; ++i) {
    for (std::size_t call = 1; call < (most ? 40U : 2U); ++call) {
      network.calls[call].per_token = 1024 + 8 * below(random, 1000);
    }
    network.run(builder, 100 + 17 * static_cast<std::uint64_t>(i * 7 % 10), kMinBytes);
  }
  const auto stream = test::StreamBuilder::cut(builder.stream, builder.stream.size());
  const auto input = symbolic_input(stream);
  if (most) {
    CHECK_FALSE(input);
    return;
  }
  REQUIRE(input);
  REQUIRE(input->steps.size() == 40);
  const auto elastic = std::count_if(input->steps.begin(), input->steps.end(),
                                     [](const SymbolicStep& step) { return step.elastic; });
  CHECK(elastic >= 1);
  CHECK(elastic <= 3);
}

TEST_CASE("symbolic: BERT with random lengths, as it was recorded", "[learn]") {
  cli::Streams streams;
  REQUIRE(cli::read_streams("tests/golden/traces/bert_random_length.csv.gz", kMinBytes, streams) ==
          "");
  const auto& stream = streams.at(0).allocations;
  // The last three iterations have 150 calls each, those between 190 and 232 tokens 162.
  const auto input = symbolic_input(stream);
  REQUIRE(input);
  CHECK(input->period.length == 150);
  std::size_t elastic = 0;
  for (const SymbolicStep& step : input->steps) {
    elastic += step.elastic ? 1 : 0;
  }
  CHECK(elastic == 0);
}

}  // namespace
}  // namespace memo
