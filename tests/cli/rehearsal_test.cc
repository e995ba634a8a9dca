// What `analyze` makes of recorded streams: the engine's own decisions.
#include "src/cli/trace/rehearsal.h"

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
      stream.events.push_back({at->second, true, stream.events.size()});
    }
    stream.events.push_back({i, false, stream.events.size()});
  }
  return stream;
}

Analyses analyses_of(const Streams& streams, std::uint64_t threshold = 65536) {
  Rehearsal how;
  how.planner = "greedy-by-size";  // which does not depend on the time
  how.plan_milliseconds = 10'000;
  how.threshold = threshold;
  Analyses analyses;
  REQUIRE(rehearse(streams, how, analyses));
  return analyses;
}

Analyses analyses_of(const Stream& stream) {
  return analyses_of(Streams{{0, stream}});
}

std::vector<Phase> phases_of(const Analysis& analysis) {
  std::vector<Phase> phases;
  for (const PhaseSpan& span : analysis.phases) {
    phases.push_back(span.phase);
  }
  return phases;
}

TEST_CASE("rehearsal: what each told iteration got is counted", "[cli]") {
  StreamBuilder builder;
  std::vector<std::uint32_t> marks;
  builder.pass(65'536);
  for (int i = 0; i < 6; ++i) {
    marks.push_back(static_cast<std::uint32_t>(builder.stream.size()));
    for (std::uint32_t call = 0; call < 80; ++call) {
      builder.pass(65'536 + 4096 * call);
    }
  }
  Stream stream = stream_of(builder.stream);
  stream.marks = marks;
  const Analyses analyses = analyses_of(stream);
  const Analysis& analysis = analyses.at(0);
  REQUIRE(analysis.iterations.size() == 6);
  const std::uint64_t each = 80 * 65'536 + 4096 * (80 * 79 / 2);
  for (const IterationBytes& one : analysis.iterations) {
    CHECK(one.asked == each);
  }
  CHECK(analysis.iterations[0].planned == 0);
  CHECK(analysis.iterations[0].fresh > 0);
  CHECK(analysis.iterations[5].planned == each);
  CHECK(analysis.iterations[5].fresh == 0);
  CHECK(analysis.trials.begun == 1);
  CHECK(analysis.trials.lost == 0);
}

TEST_CASE("rehearsal: recorded programs are served whole from the lock on", "[cli]") {
  const auto threshold = GENERATE(std::uint64_t{4096}, std::uint64_t{65536});
  const auto name =
      GENERATE("mobilenet_v2_b8", "resnet18_two_threads", "train_resnet18_b16", "vit_b1");
  INFO(name << " from " << threshold);
  Streams streams;
  REQUIRE(read_streams(std::string("tests/golden/traces/") + name + ".csv.gz", threshold,
                       streams) == "");
  for (const auto& [thread, analysis] : analyses_of(streams, threshold)) {
    INFO("thread " << thread);
    REQUIRE(analysis.period);
    CHECK(analysis.repeats);
    CHECK(analysis.served_bytes == analysis.bytes_since_lock);
    CHECK(analysis.served_bytes > analysis.bytes / 3);
    CHECK(analysis.left_out == 0);
    CHECK(analysis.allocations == streams.at(thread).allocations.size());
    CHECK(analysis.problem.buffers.size() == analysis.period->length);
    CHECK(analysis.phases.back().phase == Phase::kServing);
    CHECK(analysis.counters.large_allocations.get() == analysis.allocations);
  }
}

TEST_CASE("rehearsal: what the pool has at hand is told of as such", "[cli]") {
  Streams streams;
  REQUIRE(read_streams("tests/golden/traces/bert_random_length.csv.gz", 65536, streams) == "");
  const Analyses analyses = analyses_of(streams);
  const Analysis& analysis = analyses.at(0);
  CHECK_FALSE(analysis.period);
  CHECK_FALSE(analysis.repeats);
  CHECK(analysis.served_bytes < analysis.bytes / 10);  // layers on trial
  CHECK(analysis.counters.at_hand_bytes.get() > analysis.bytes / 2);
  CHECK(analysis.phases.back().phase == Phase::kPooling);
  CHECK(find_changing_shapes(streams.at(0).allocations));
}

TEST_CASE("rehearsal: iterations of changing shape are served where call sites are known",
          "[cli]") {
  const bool known = GENERATE(true, false);
  Random random(25);
  StreamBuilder builder;
  for (int i = 0; i < 400; ++i) {
    const std::uint64_t tokens = 30 + random() % 300;
    for (std::uint64_t call = 0; call < 24; ++call) {
      // The residual outlives its layer.
      const std::uint64_t size = call % 4 == 1 ? 96 * tokens * tokens : 3072 * tokens;
      const auto block = builder.allocate(size, 6, known ? 1 + call : 0);
      builder.stream[block].death = block + static_cast<std::uint32_t>(std::min<std::uint64_t>(
                                                call % 4 == 0 ? 6 : 2, 24 - call));
    }
  }
  const Analyses analyses = analyses_of(stream_of(builder.stream));
  const Analysis& analysis = analyses.at(0);
  CHECK_FALSE(analysis.period);
  CHECK((analysis.counters.symbolic_calls.get() != 0) == known);
  CHECK((analysis.counters.shapes.get() > 50) == known);
  CHECK((analysis.served_bytes > analysis.bytes / 3) == known);
  CHECK((analysis.height != 0 || !known));
  CHECK((analysis.phases.back().phase == Phase::kServing) == known);
}

TEST_CASE("rehearsal: a program that changes is learned anew", "[cli]") {
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
  for (int i = 0; i < 20; ++i) {
    test::infer(builder, one);
  }
  const Analyses analyses = analyses_of(stream_of(builder.stream));
  const Analysis& analysis = analyses.at(0);
  REQUIRE(analysis.period);
  const std::uint64_t layers = analysis.trials.lost;  // that were taken for loops
  CHECK(layers <= 1);
  CHECK(analysis.plans - layers == 2);
  CHECK(analysis.plan_changes - layers ==
        2);  // the first plan is known when the program comes back
  CHECK(analysis.repeats);
  CHECK(analysis.period->length == one.calls());
  CHECK(analysis.period->first >= 20 * (one.calls() + two.calls()));
  CHECK(analysis.served_bytes * 10 > analysis.bytes * 6);
}

TEST_CASE("rehearsal: threads share what one has learned", "[cli]") {
  Random random(24);
  const auto network = test::some_network(random, 8, 10);
  StreamBuilder builder;
  for (int i = 0; i < 20; ++i) {
    test::infer(builder, network);
  }
  Streams streams;
  streams[3] = streams[7] = stream_of(builder.stream);
  for (StreamEvent& event : streams[7].events) {
    event.row += streams[3].events.size();
  }
  const Analyses analyses = analyses_of(streams);
  CHECK(analyses.at(3).plans - analyses.at(3).trials.lost == 1);
  CHECK(analyses.at(7).plans == 0);
  REQUIRE(analyses.at(7).period);
  CHECK(analyses.at(7).period->length == network.calls());
  CHECK(analyses.at(7).served_bytes > analyses.at(3).served_bytes);
  CHECK(analyses.at(7).locked_after < network.calls());
}

TEST_CASE("rehearsal: an extra call costs only itself", "[cli]") {
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
  const Analyses analyses = analyses_of(stream_of(builder.stream));
  const Analysis& analysis = analyses.at(0);
  CHECK(analysis.plans - analysis.trials.lost == 1);
  CHECK(analysis.bytes_since_lock - analysis.served_bytes == 1 << 24);
}

TEST_CASE("rehearsal: a program that has left its loop no longer repeats", "[cli]") {
  Random random(23);
  const auto network = test::some_network(random, 8, 10);
  StreamBuilder builder;
  for (int i = 0; i < 10; ++i) {
    test::infer(builder, network);
  }
  for (int i = 0; i < 2000; ++i) {
    builder.pass(test::some_size(random));
  }
  const Analyses analyses = analyses_of(stream_of(builder.stream));
  const Analysis& analysis = analyses.at(0);
  CHECK(analysis.period);
  CHECK_FALSE(analysis.repeats);
  const std::vector<Phase> phases = phases_of(analysis);
  REQUIRE(phases.size() >= 4);
  CHECK(std::vector(phases.end() - 4, phases.end()) ==
        std::vector{Phase::kReady, Phase::kServing, Phase::kLearning, Phase::kPooling});
}

}  // namespace
}  // namespace memo::cli
