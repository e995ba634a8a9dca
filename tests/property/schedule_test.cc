// Every strategy on random graphs: the judge accepts its order, its peak is what it says, its bound
// is a bound, and what it calls optimal is what trying all orders finds.
#include <catch2/catch.hpp>
#include <limits>

#include "dsa/planner.h"
#include "dsa/validate.h"
#include "schedule/schedule.h"
#include "schedule/validate.h"
#include "tests/scheduler/graphs.h"
#include "tests/support/skip.h"

namespace schedule {
namespace {

// The least peak over all orders: every order extended one node at a time, pruned only at the best
// so far.
class AllOrders {
 public:
  AllOrders(const Graph& graph, bool coalesce) : graph_(graph), coalesce_(coalesce) {
    std::vector<bool> used(graph.nodes.size());
    Order order;
    extend(order, used);
  }
  Bytes best() const { return best_; }

 private:
  bool can_follow(const std::vector<bool>& used, NodeId n) const {
    const Node& node = graph_.nodes[static_cast<std::size_t>(n)];
    const auto ran = [&](NodeId m) { return used[static_cast<std::size_t>(m)]; };
    if (!std::ranges::all_of(node.after, ran)) {
      return false;
    }
    for (std::size_t m = 0; m < used.size(); ++m) {
      for (const TensorId t : node.inputs) {
        if (!used[m] && std::ranges::count(graph_.nodes[m].outputs, t) > 0) {
          return false;
        }
      }
    }
    return true;
  }
  void extend(Order& order, std::vector<bool>& used) {
    if (order.size() == used.size()) {
      const Verdict verdict = validate(graph_, order, coalesce_);
      REQUIRE(verdict);
      best_ = std::min(best_, verdict.peak);
      return;
    }
    for (NodeId n = 0; n < static_cast<NodeId>(used.size()); ++n) {
      if (!used[static_cast<std::size_t>(n)] && can_follow(used, n)) {
        used[static_cast<std::size_t>(n)] = true;
        order.push_back(n);
        extend(order, used);
        order.pop_back();
        used[static_cast<std::size_t>(n)] = false;
      }
    }
  }

  const Graph& graph_;
  bool coalesce_;
  Bytes best_ = std::numeric_limits<Bytes>::max();
};

constexpr int kBruteForced = 2000;

bool affordable(const Strategy& strategy, std::uint64_t seed) {
  return !strategy.name.starts_with("olla") || seed % 97 == 0;  // an integer program takes long
}

TEST_CASE("schedule: every strategy against all orders of small graphs", "[schedule][property]") {
  for (std::uint64_t seed = 1; seed <= kBruteForced; ++seed) {
    const bool coalesce = seed % 2 == 0;
    const Graph graph = test::random_graph(seed, {.nodes = 4 + static_cast<int>(seed % 5)});
    const Bytes best = AllOrders(graph, coalesce).best();
    for (const Strategy& strategy : strategies()) {
      if (!affordable(strategy, seed)) {
        continue;
      }
      CAPTURE(seed, strategy.name);
      Options options;
      options.coalesce = coalesce;
      const Outcome outcome = schedule(graph, strategy.name, options);
      const Verdict verdict = validate(graph, outcome.order, coalesce);
      REQUIRE(verdict.reason.empty());
      REQUIRE(verdict.peak == outcome.peak);
      REQUIRE(outcome.peak <= outcome.framework_peak);
      REQUIRE(outcome.lower_bound <= best);
      REQUIRE(outcome.peak >= best);
      REQUIRE((!strategy.exact || outcome.optimal));
      REQUIRE((!outcome.optimal || outcome.peak == best));
    }
  }
}

TEST_CASE("schedule: forests against all their orders", "[schedule][property]") {
  for (std::uint64_t seed = 1; seed <= 3 * kBruteForced; ++seed) {
    CAPTURE(seed);
    const Graph graph = test::random_graph(seed, {.nodes = 4 + static_cast<int>(seed % 3),
                                                  .most_bytes = 8,
                                                  .extras = seed % 4 == 0,
                                                  .forest = true});
    const Bytes best = AllOrders(graph, false).best();
    for (const char* name : {"subtrees", "downsets", "windows", "portfolio"}) {
      const Outcome outcome = schedule(graph, name, {});
      CAPTURE(name);
      REQUIRE(validate(graph, outcome.order).peak == outcome.peak);
      REQUIRE(outcome.lower_bound <= best);
      REQUIRE(outcome.peak >= best);
      REQUIRE((!outcome.optimal || outcome.peak == best));
      REQUIRE((name != std::string_view("portfolio") || outcome.optimal));
    }
  }
}

TEST_CASE("schedule: every strategy on larger random graphs", "[schedule][property]") {
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    const bool coalesce = seed % 2 == 0;
    const Graph graph =
        test::random_graph(seed, {.nodes = 40 * static_cast<int>(seed), .most_bytes = 1000});
    for (const Strategy& strategy : strategies()) {
      if (strategy.name.starts_with("olla")) {
        continue;  // far beyond what an integer program takes
      }
      CAPTURE(seed, strategy.name);
      Options options;
      options.coalesce = coalesce;
      options.seconds = 0.1;
      const Outcome outcome = schedule(graph, strategy.name, options);
      const Verdict verdict = validate(graph, outcome.order, coalesce);
      REQUIRE(verdict.reason.empty());
      REQUIRE(verdict.peak == outcome.peak);
      REQUIRE(outcome.peak <= outcome.framework_peak);
      REQUIRE(outcome.lower_bound <= outcome.peak);
      REQUIRE(outcome.optimal == (outcome.lower_bound == outcome.peak));
    }
  }
}

// Whether or not the time suffices for a strategy's first step, there is an order to return.
TEST_CASE("schedule: a time limit returns the best so far", "[schedule][property]") {
  const Graph graph = test::random_graph(3, {.nodes = 3000, .most_bytes = 1000});
  std::atomic<bool> stopped = true;
  for (const Strategy& strategy : strategies()) {
    for (Options options : {Options{.seconds = 0}, Options{.seconds = 60, .stop = &stopped}}) {
      CAPTURE(strategy.name, options.seconds);
      const Outcome outcome = schedule(graph, strategy.name, options);
      REQUIRE(validate(graph, outcome.order).peak == outcome.peak);
      REQUIRE(outcome.peak <= outcome.framework_peak);
      REQUIRE(outcome.lower_bound > 0);
    }
  }
}

TEST_CASE("schedule: OLLA's joint program places what it orders, no lower than the least peak",
          "[schedule][property]") {
#ifndef MEMO_HAVE_CBC
  memo::testing::skip("built without CBC");
  return;
#endif
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    CAPTURE(seed);
    const Graph graph = test::random_graph(seed, {.nodes = 6});
    const Bytes best = AllOrders(graph, false).best();
    const Outcome outcome = schedule(graph, "olla-joint", {.seconds = 20});
    REQUIRE(outcome.plan);
    const Placement placed = placement(graph, outcome.order, false);
    REQUIRE(dsa::validate(placed.problem, *outcome.plan));
    REQUIRE(outcome.plan->height >= best);
  }
}

TEST_CASE("schedule: the placement's own bound is the order's peak", "[schedule][property]") {
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    CAPTURE(seed);
    const bool coalesce = seed % 2 == 0;
    const Graph graph = test::random_graph(seed, {.nodes = 25});
    const Outcome outcome = schedule(graph, "eager", {.coalesce = coalesce});
    const Placement placed = placement(graph, outcome.order, coalesce);
    REQUIRE(placed.owners.size() == placed.problem.buffers.size());
    REQUIRE(dsa::lower_bound(placed.problem) == outcome.peak);
  }
}

}  // namespace
}  // namespace schedule
