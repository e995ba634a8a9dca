#include "src/learn/find_period.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <optional>
#include <string>

#include "src/base/tuning.h"
#include "src/base/units.h"
#include "src/cli/trace/trace_reader.h"
#include "tests/learn/feed.h"

namespace memo {
namespace {

using test::feed;
using test::Random;
using test::StreamBuilder;

cli::Streams streams(const std::string& name, std::uint64_t threshold) {
  cli::Streams result;
  REQUIRE(cli::read_streams("tests/golden/traces/" + name + ".csv.gz", threshold, result) == "");
  return result;
}

TEST_CASE("period: recorded programs are found by their sixth iteration", "[learn]") {
  struct Case {
    const char* name;
    std::uint32_t thread;
    std::uint32_t length;
  };
  const auto threshold = GENERATE(std::uint64_t{4096}, std::uint64_t{65536});
  const auto [name, thread, length] =
      GENERATE(Case{"mobilenet_v2_b8", 0, 149}, Case{"resnet18_two_threads", 0, 101},
               Case{"resnet18_two_threads", 1, 101}, Case{"train_resnet18_b16", 0, 325},
               Case{"vit_b1", 0, 162});
  INFO(name << " thread " << thread << " threshold " << threshold);
  const cli::Stream stream = streams(name, threshold).at(thread);
  const auto found = feed(stream.allocations);
  REQUIRE(found);
  CHECK(found->period.length == length);
  CHECK(found->after <= stream.marks[6]);
  CHECK(found->period.first + 3 * length <= found->after + length);
  if (thread == 0) {  // the marks are thread 0's
    CHECK(length == stream.marks[6] - stream.marks[5]);
    const auto told = find_period_told(stream.allocations, stream.marks);
    REQUIRE(told);
    CHECK(told->length == length);
    CHECK((stream.marks[5] - told->first) % length == 0);
  }
}

// Iterations of 100 calls, all but one of which free their block at once. `share`: one part in so many
// of the peak is held by a result that is kept until the next one; 0: nothing is. The blocks of the
// first `odd` calls live for another time in each iteration.
std::vector<Allocation> iterations(int count, std::uint64_t share, std::uint32_t odd = 0) {
  constexpr std::uint64_t kPeak = 64 << 20;
  StreamBuilder builder;
  Random random(7);
  std::optional<StreamBuilder::Block> held;
  for (int i = 0; i < count; ++i) {
    for (std::uint32_t call = 0; call < odd; ++call) {
      const auto block = builder.allocate((1 << 20) + call * kGranule);
      builder.stream[block].death = block + 1 + static_cast<std::uint32_t>(random() % 40);
    }
    for (std::uint32_t call = odd; call < 99; ++call) {
      builder.pass((1 << 20) + call * kGranule);
    }
    const auto last = share == 0 ? builder.allocate(kPeak) : builder.allocate(kPeak / share);
    if (share == 0) {
      builder.free(last);
      continue;
    }
    if (held) {
      builder.free(*held);
    }
    held = last;
    builder.stream[last - 1].size = kPeak;
  }
  return builder.stream;
}

TEST_CASE("period: what a loop holds tells how long it must have run", "[learn]") {
  // Less than a result of 1000 classes: an iteration. A little: eight copies. More: as long as layers.
  CHECK(find_period(iterations(5, 300)));
  CHECK_FALSE(find_period(iterations(5, 200)));
  CHECK_FALSE(find_period(iterations(7, 80)));
  CHECK(find_period(iterations(10, 80)));
  CHECK_FALSE(find_period(iterations(10, 50)));
  CHECK(find_period(iterations(12, 50)));
}

TEST_CASE("period: a few lifetimes may differ between copies", "[learn]") {
  // A hundred blocks, each 0.6 % of the bytes or a little less.
  CHECK(find_period(iterations(8, 0, 6)));
  CHECK_FALSE(find_period(iterations(8, 0, 13)));
}

TEST_CASE("period: streams without an order have none", "[learn]") {
  const auto name = GENERATE("bert_random_length", "jax_mlp_pool");
  const auto all = streams(name, 65536);
  for (const auto& [thread, stream] : all) {
    INFO(name << " thread " << thread);
    CHECK_FALSE(feed(stream.allocations));
    for (std::size_t n = 1; n <= stream.allocations.size(); n += 41) {
      CHECK_FALSE(find_period(StreamBuilder::cut(stream.allocations, n)));
    }
  }
}

TEST_CASE("period: the layers of a network do not pass for iterations", "[learn]") {
  const auto seed = GENERATE(range(std::uint64_t{1}, std::uint64_t{61}));
  INFO("seed " << seed);
  Random random(seed);
  const auto layers = static_cast<std::uint32_t>(4 + random() % 45);
  const auto network = test::some_network(random, layers, 5 + random() % 12);
  StreamBuilder builder;
  test::prelude(builder, random, static_cast<std::uint32_t>(random() % 3000));
  const std::size_t begin = builder.stream.size();
  for (int iteration = 0; iteration < 6; ++iteration) {
    test::infer(builder, network);
  }
  const auto found = feed(builder.stream);
  REQUIRE(found);
  CHECK(found->period.length == network.calls());
  CHECK(found->after <= begin + std::size_t{4} * network.calls());
}

TEST_CASE("period: layers that leave nothing behind deceive once only", "[learn]") {
  Random random(7);
  auto network = test::some_network(random, 24, 9);
  network.residual = false;
  StreamBuilder builder;
  for (int iteration = 0; iteration < 5; ++iteration) {
    test::infer(builder, network);
  }
  // Ends inside the layers of the fifth iteration, with fewer copies than broke before.
  const std::size_t inside = std::size_t{4} * network.calls() + network.head.size() + 20 * 9;
  const auto found = find_period(builder.prefix(inside));
  REQUIRE(found);
  CHECK(found->length == network.calls());
}

TEST_CASE("period: a result kept until the next one does not hide the iteration", "[learn]") {
  const auto seed = GENERATE(range(std::uint64_t{1}, std::uint64_t{31}));
  INFO("seed " << seed);
  Random random(seed);
  const auto layers = static_cast<std::uint32_t>(6 + random() % 20);
  const auto network = test::some_network(random, layers, 5 + random() % 12);
  StreamBuilder builder;
  test::prelude(builder, random, static_cast<std::uint32_t>(random() % 1000));
  const std::size_t begin = builder.stream.size();
  std::optional<StreamBuilder::Block> result;
  for (int iteration = 0; iteration < 6; ++iteration) {
    test::infer(builder, network);
    const auto next = builder.allocate(1 << 20);
    if (result) {
      builder.free(*result);
    }
    result = next;
  }
  const auto found = feed(builder.stream);
  REQUIRE(found);
  const std::size_t length = network.calls() + 1;
  CHECK(found->period.length == length);
  CHECK(found->after <= begin + 4 * length);
}

TEST_CASE("period: training wraps round and is found", "[learn]") {
  const auto seed = GENERATE(range(std::uint64_t{1}, std::uint64_t{31}));
  INFO("seed " << seed);
  Random random(seed);
  const auto layers = static_cast<std::uint32_t>(4 + random() % 20);
  auto network = test::some_network(random, layers, 6 + random() % 12);
  network.residual = false;
  StreamBuilder builder;
  test::prelude(builder, random, static_cast<std::uint32_t>(random() % 1500));
  test::Trainer trainer(network);
  const std::size_t begin = builder.stream.size();
  trainer.step(builder);
  const std::size_t length = builder.stream.size() - begin;
  for (int iteration = 1; iteration < 6; ++iteration) {
    trainer.step(builder);
  }
  const auto found = feed(builder.stream);
  REQUIRE(found);
  CHECK(found->period.length == length);
}

TEST_CASE("period: two programs in turn repeat with the sum of their lengths", "[learn]") {
  Random random(11);
  const auto one = test::some_network(random, 8, 10);
  const auto two = test::some_network(random, 6, 11);
  StreamBuilder builder;
  for (int iteration = 0; iteration < 4; ++iteration) {
    test::infer(builder, one);
    test::infer(builder, two);
  }
  const auto found = feed(builder.stream);
  REQUIRE(found);
  CHECK(found->period.length == one.calls() + two.calls());
}

TEST_CASE("period: extra calls at random delay, but do not mislead", "[learn]") {
  const auto seed = GENERATE(range(std::uint64_t{1}, std::uint64_t{31}));
  INFO("seed " << seed);
  Random random(seed);
  const auto network = test::some_network(random, 12, 13);
  StreamBuilder builder;
  for (int iteration = 0; iteration < 30; ++iteration) {
    if (random() % 5 == 0) {
      builder.pass(test::some_size(random));
    }
    test::infer(builder, network);
  }
  const auto found = feed(builder.stream);
  if (found) {
    CHECK(found->period.length == network.calls());
  }
}

TEST_CASE("period: equal sizes with lifetimes that differ are no iteration", "[learn]") {
  Random random(3);
  StreamBuilder builder;
  std::vector<StreamBuilder::Block> living;
  for (int call = 0; call < 4000; ++call) {
    living.push_back(builder.allocate(65536 + static_cast<std::uint64_t>(call % 20) * 4096));
    while (living.size() > 8) {
      const std::size_t victim = random() % living.size();
      builder.free(living[victim]);
      living.erase(living.begin() + static_cast<std::ptrdiff_t>(victim));
    }
  }
  CHECK_FALSE(feed(builder.stream));
}

TEST_CASE("period: sites are ignored and sizes are not", "[learn]") {
  Random random(5);
  const auto network = test::some_network(random, 10, 10);
  StreamBuilder builder;
  for (int iteration = 0; iteration < 4; ++iteration) {
    test::infer(builder, network);
  }
  for (Allocation& allocation : builder.stream) {
    allocation.site = random();
  }
  CHECK(find_period(builder.stream));
  builder.stream[builder.stream.size() - 3].size += 64;
  CHECK_FALSE(find_period(builder.stream));
}

TEST_CASE("period: asks for as many calls as the caller requires", "[learn]") {
  Random random(5);
  const auto network = test::some_network(random, 10, 10);
  StreamBuilder builder;
  for (int iteration = 0; iteration < 4; ++iteration) {
    test::infer(builder, network);
  }
  CHECK(find_period(builder.stream, 3 * network.calls()));
  CHECK_FALSE(find_period(builder.stream, 3 * network.calls() + 20));
}

TEST_CASE("period: empty and tiny streams have none", "[learn]") {
  StreamBuilder builder;
  CHECK_FALSE(find_period(builder.stream));
  CHECK_FALSE(find_period_told(builder.stream, {}));
  builder.pass(65536);
  CHECK_FALSE(find_period(builder.stream));
}

TEST_CASE("period: told iterations need two equal ones", "[learn]") {
  Random random(9);
  const auto one = test::some_network(random, 3, 5);
  const auto two = test::some_network(random, 2, 7);
  StreamBuilder builder;
  std::vector<std::uint32_t> marks;
  const auto iterate = [&](const test::Network& network) {
    marks.push_back(static_cast<std::uint32_t>(builder.stream.size()));
    test::infer(builder, network);
  };
  test::prelude(builder, random, 100);
  iterate(one);
  iterate(one);
  marks.push_back(static_cast<std::uint32_t>(builder.stream.size()));
  CHECK(find_period_told(builder.stream, marks) == Period{100, one.calls(), 1});
  marks.pop_back();

  SECTION("a changed iteration is none") {
    iterate(two);
    marks.push_back(static_cast<std::uint32_t>(builder.stream.size()));
    CHECK_FALSE(find_period_told(builder.stream, marks));
  }
  SECTION("iterations in turn make a group") {
    iterate(two);
    iterate(one);
    iterate(two);
    marks.push_back(static_cast<std::uint32_t>(builder.stream.size()));
    const auto found = find_period_told(builder.stream, marks);
    REQUIRE(found);
    CHECK(found->length == one.calls() + two.calls());
    CHECK(found->first == 100 + one.calls());
  }
  SECTION("marks that are not of this stream are no period") {
    marks.push_back(static_cast<std::uint32_t>(builder.stream.size() + 10));
    CHECK_FALSE(find_period_told(builder.stream, marks));
  }
}

}  // namespace
}  // namespace memo
