// The parts that strategies are made of: cuts, bounds, passes and articulation points.
#include <catch2/catch.hpp>

#include "scheduler/cuts.h"
#include "scheduler/divide.h"
#include "scheduler/downsets.h"
#include "scheduler/eager.h"
#include "scheduler/exact.h"
#include "scheduler/min_cut.h"
#include "scheduler/part.h"
#include "scheduler/runner.h"
#include "tests/scheduler/graphs.h"

namespace schedule {
namespace {

const Deadline kNoLimit(1e300, nullptr);
const Deadline kPassed(0, nullptr);

TEST_CASE("min cut: the bottleneck, and both sides of it", "[schedule]") {
  FlowNetwork network(5);  // 0 -> {1, 2} -> 3 -> 4, the last arc is the bottleneck
  network.add_arc(0, 1, 3);
  network.add_arc(0, 2, 4);
  network.add_arc(1, 3, FlowNetwork::kInfinite);
  network.add_arc(2, 3, 2);
  network.add_arc(3, 4, 4);
  CHECK(network.min_cut(0, 4, kNoLimit) == 4);
  CHECK(network.source_side(3));
  CHECK_FALSE(network.source_side(4));
  CHECK(network.sink_side(4) == std::vector<bool>{false, false, false, false, true});
  FlowNetwork late(2);
  late.add_arc(0, 1, 1);
  CHECK_FALSE(late.min_cut(0, 1, kPassed));
}

TEST_CASE("cuts: no order runs a node with less than its cheapest state, and the state is real",
          "[schedule]") {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    CAPTURE(seed);
    const Problem problem = make_problem(test::random_graph(seed, {.nodes = 15}), false);
    for (NodeId n = 0; n < problem.nodes(); ++n) {
      const CheapestState state = *cheapest_state(problem, n, kNoLimit);
      for (const std::vector<bool>& before : {state.before, state.before_largest}) {
        Runner runner(problem);
        for (NodeId m = 0; m < problem.nodes(); ++m) {
          if (before[static_cast<std::size_t>(m)]) {
            REQUIRE(runner.ready(m));
            runner.run(m);
          }
        }
        REQUIRE(runner.ready(n));
        REQUIRE(runner.while_running(n) == state.while_running);
      }
      Runner runner(problem);
      for (NodeId m = 0; m < n; ++m) {
        runner.run(m);
      }
      REQUIRE(runner.while_running(n) >= state.while_running);
    }
  }
}

TEST_CASE("passes: the peak never rises, and the order stays one", "[schedule]") {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    CAPTURE(seed);
    const Problem problem = make_problem(test::random_graph(seed, {.nodes = 60}), false);
    const Order given = given_order(problem);
    for (const Order& order : {free_early(problem, given), allocate_late(problem, given),
                               settle(problem, given, kNoLimit)}) {
      Runner runner(problem);
      for (const NodeId n : order) {
        REQUIRE(runner.ready(n));
        runner.run(n);
      }
      REQUIRE(order.size() == given.size());
      REQUIRE(peak_of(problem, order) <= peak_of(problem, given));
    }
  }
}

// `x` is on the greedy way down, but need not be: its result would lie about while `big` runs.
TEST_CASE("downsets: a group that ends above one of its parts is not run at once", "[schedule]") {
  Graph graph;
  const auto tensor = [&](Bytes bytes) {
    Tensor made;
    made.name = std::string("t").append(std::to_string(graph.tensors.size()));
    made.bytes = bytes;
    graph.tensors.push_back(made);
    return static_cast<TensorId>(graph.tensors.size() - 1);
  };
  const auto node = [&](const char* name, std::vector<TensorId> inputs,
                        std::vector<TensorId> outputs, std::vector<NodeId> after = {}) {
    Node made;
    made.name = name;
    made.inputs = std::move(inputs);
    made.outputs = std::move(outputs);
    made.after = std::move(after);
    graph.nodes.push_back(made);
    return static_cast<NodeId>(graph.nodes.size() - 1);
  };
  const TensorId w = tensor(30);
  const TensorId f = tensor(10);
  const TensorId x = tensor(5);
  const TensorId y = tensor(6);
  const NodeId first = node("w", {}, {w});
  node("f", {}, {f}, {first});
  node("x", {f}, {x});
  node("y", {f}, {y});
  const NodeId z = node("z", {w, y}, {});
  const NodeId big = node("big", {}, {tensor(60)}, {z});
  node("last", {f, x}, {}, {big});
  const Problem problem = make_problem(graph, false);
  Incumbent incumbent(problem, given_order(problem));
  CHECK(incumbent.peak() == 75);
  incumbent.raise_bound(cheapest_state(problem, big, kNoLimit)->while_running);
  CHECK(search_downsets(problem, incumbent, {Deadline(10, nullptr)}, "test"));
  CHECK(incumbent.peak() == 70);
  CHECK(incumbent.closed());
}

TEST_CASE("runner: undo takes a node back exactly", "[schedule]") {
  const Problem problem = make_problem(test::random_graph(7, {.nodes = 40}), true);
  Runner runner(problem);
  std::vector<Bytes> levels;
  for (const NodeId n : given_order(problem)) {
    levels.push_back(runner.level());
    runner.run(n);
  }
  for (NodeId n = problem.nodes(); n-- > 0;) {
    runner.undo(n);
    REQUIRE(runner.level() == levels[static_cast<std::size_t>(n)]);
    REQUIRE(runner.ready(n));
  }
}

TEST_CASE("divide: a node is an articulation point if it is related to all others", "[schedule]") {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    CAPTURE(seed);
    const Problem problem = make_problem(test::random_graph(seed, {.nodes = 12}), false);
    const auto count = static_cast<std::size_t>(problem.nodes());
    std::vector<std::vector<bool>> before(count, std::vector<bool>(count));
    for (std::size_t n = 0; n < count; ++n) {
      for (const NodeId pred : problem.preds[static_cast<NodeId>(n)]) {
        before[n][static_cast<std::size_t>(pred)] = true;
        for (std::size_t m = 0; m < count; ++m) {
          before[n][m] = before[n][m] || before[static_cast<std::size_t>(pred)][m];
        }
      }
    }
    std::vector<std::size_t> expected;
    for (std::size_t n = 0; n < count; ++n) {
      bool related = true;
      for (std::size_t m = 0; m < count; ++m) {
        related = related && (m == n || before[n][m] || before[m][n]);
      }
      if (related) {
        expected.push_back(n);
      }
    }
    REQUIRE(articulation_positions(problem, given_order(problem)) == expected);
  }
}

TEST_CASE("exact: without small tensors nothing is higher, and what is left is as it was",
          "[schedule]") {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    CAPTURE(seed);
    const Problem problem = make_problem(test::random_graph(seed, {.nodes = 30}), seed % 2 == 0);
    const Order given = given_order(problem);
    Bytes before = peak_of(problem, given);
    REQUIRE(peak_of(without_small(problem, 1), given) == before);
    for (const Bytes least : {4, 10, 16}) {
      const Problem coarse = without_small(problem, least);
      const Bytes peak = peak_of(coarse, given);
      REQUIRE(peak <= before);
      before = peak;
      for (std::size_t s = 0; s < problem.storages.size(); ++s) {
        const Bytes bytes = problem.storages[s].bytes;
        REQUIRE(coarse.storages[s].bytes == (bytes < least ? 0 : bytes));
      }
    }
    REQUIRE(peak_of(without_small(problem, 100), given) == 0);
  }
}

// A chain of merges over leaves that all stand first: one subtree at a time needs three units.
TEST_CASE("subtrees: a tree is run one subtree at a time, the one that needs most first",
          "[schedule]") {
  Graph graph;
  const auto node = [&](Bytes bytes, std::vector<TensorId> inputs) {
    Tensor made;
    made.name = std::string("t").append(std::to_string(graph.tensors.size()));
    made.bytes = bytes;
    graph.tensors.push_back(made);
    Node maker;
    maker.name = std::string("n").append(std::to_string(graph.nodes.size()));
    maker.inputs = std::move(inputs);
    maker.outputs = {static_cast<TensorId>(graph.tensors.size() - 1)};
    graph.nodes.push_back(maker);
    return maker.outputs[0];
  };
  std::vector<TensorId> level;
  for (int i = 0; i < 64; ++i) {
    level.push_back(node(i == 63 ? 10 : 1, {}));
  }
  while (level.size() > 1) {
    std::vector<TensorId> next;
    for (std::size_t i = 0; i < level.size(); i += 2) {
      next.push_back(node(1, {level[i], level[i + 1]}));
    }
    level = next;
  }
  graph.tensors[static_cast<std::size_t>(level[0])].output = true;
  const Outcome outcome = schedule(graph, "subtrees", {});
  CHECK(outcome.framework_peak == 73 + 1);
  CHECK(outcome.peak == 12);  // the large leaf first, then its neighbour, then their sum
}

TEST_CASE("parts: a part's peak is the whole's peak over its positions", "[schedule]") {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    CAPTURE(seed);
    const Problem problem = make_problem(test::random_graph(seed, {.nodes = 20}), seed % 2 == 0);
    const Order given = given_order(problem);
    const std::size_t begin = seed % 9;
    const std::size_t end = 11 + seed % 8;
    PartMaker parts(problem);
    parts.cut(given, begin / 2, begin + 1);  // an earlier cut leaves nothing behind
    const Problem part = parts.cut(given, begin, end);
    Runner whole(problem);
    Bytes peak = 0;
    for (std::size_t i = 0; i < end; ++i) {
      if (i >= begin) {
        peak = std::max(peak, std::max(whole.level(), whole.while_running(given[i])));
      }
      whole.run(given[i]);
    }
    REQUIRE(peak_of(part, given_order(part)) == peak);
  }
}

}  // namespace
}  // namespace schedule
