#include "src/cli/simulation.h"

#include <catch2/catch.hpp>

#include "tests/learn/stream_builder.h"

namespace memo::cli {
namespace {

using test::Random;
using test::StreamBuilder;

// The stream with its frees at the places that the deaths tell.
Stream stream_of(const std::vector<Allocation>& allocations) {
  std::multimap<std::uint32_t, std::uint32_t> deaths;
  for (std::uint32_t i = 0; i < allocations.size(); ++i) {
    deaths.emplace(allocations[i].death, i);
  }
  Stream stream{allocations, {}, {}};
  for (std::uint32_t i = 0; i < allocations.size(); ++i) {
    for (auto [at, end] = deaths.equal_range(i); at != end; ++at) {
      stream.events.push_back({at->second, true});
    }
    stream.events.push_back({i, false});
  }
  return stream;
}

TEST_CASE("simulation: recorded programs are served whole from the lock on", "[cli]") {
  struct Case {
    const char* name;
    std::uint32_t thread;
  };
  const auto threshold = GENERATE(std::uint64_t{4096}, std::uint64_t{65536});
  const auto [name, thread] =
      GENERATE(Case{"mobilenet_v2_b8", 0}, Case{"resnet18_two_threads", 0},
               Case{"resnet18_two_threads", 1}, Case{"train_resnet18_b16", 0}, Case{"vit_b1", 0});
  INFO(name << " thread " << thread);
  Streams streams;
  REQUIRE(read_streams(std::string("tests/golden/traces/") + name + ".csv.gz", threshold,
                       streams) == "");
  const Analysis analysis = simulate(streams.at(thread), {});
  REQUIRE(analysis.period);
  CHECK(analysis.repeats);
  CHECK(analysis.plans == 1);
  CHECK(analysis.served_bytes == analysis.bytes_since_lock);
  CHECK(analysis.served_bytes > analysis.bytes / 3);
  CHECK(analysis.left_out == 0);
  CHECK(analysis.allocations == streams.at(thread).allocations.size());
  CHECK(analysis.problem.buffers.size() == analysis.period->length);
}

TEST_CASE("simulation: streams without a period serve nothing", "[cli]") {
  Streams streams;
  REQUIRE(read_streams("tests/golden/traces/bert_random_length.csv.gz", 65536, streams) == "");
  const Analysis analysis = simulate(streams.at(0), {});
  CHECK_FALSE(analysis.period);
  CHECK_FALSE(analysis.repeats);
  CHECK(analysis.served_bytes == 0);
  CHECK(analysis.bytes > 0);
}

TEST_CASE("simulation: a program that changes is learned anew", "[cli]") {
  Random random(21);
  const auto one = test::some_network(random, 8, 10);
  const auto two = test::some_network(random, 5, 12);
  StreamBuilder builder;
  for (int i = 0; i < 20; ++i) {
    test::infer(builder, one);
  }
  for (int i = 0; i < 20; ++i) {
    test::infer(builder, two);
  }
  const Analysis analysis = simulate(stream_of(builder.stream), {});
  REQUIRE(analysis.period);
  CHECK(analysis.plans == 2);
  CHECK(analysis.repeats);
  CHECK(analysis.period->length == two.calls());
  CHECK(analysis.period->first >= 20 * one.calls());
  CHECK(analysis.served_bytes * 10 > analysis.bytes * 6);
}

TEST_CASE("simulation: an extra call costs only itself", "[cli]") {
  Random random(22);
  const auto network = test::some_network(random, 8, 10);
  StreamBuilder builder;
  for (int i = 0; i < 10; ++i) {
    test::infer(builder, network);
  }
  builder.pass(1 << 24);
  for (int i = 0; i < 10; ++i) {
    test::infer(builder, network);
  }
  const Analysis analysis = simulate(stream_of(builder.stream), {});
  CHECK(analysis.plans == 1);
  CHECK(analysis.bytes_since_lock - analysis.served_bytes == 1 << 24);
}

TEST_CASE("simulation: a program that has left its loop no longer repeats", "[cli]") {
  Random random(23);
  const auto network = test::some_network(random, 8, 10);
  StreamBuilder builder;
  for (int i = 0; i < 10; ++i) {
    test::infer(builder, network);
  }
  for (int i = 0; i < 2000; ++i) {
    builder.pass(test::some_size(random));
  }
  const Analysis analysis = simulate(stream_of(builder.stream), {});
  CHECK(analysis.period);
  CHECK_FALSE(analysis.repeats);
}

}  // namespace
}  // namespace memo::cli
