// What a limit forces: sound against the exact search on small random graphs, and strong enough to close them.
#include <catch2/catch.hpp>
#include <set>
#include <utility>

#include "schedule/schedule.h"
#include "scheduler/cuts.h"
#include "scheduler/downsets.h"
#include "scheduler/part.h"
#include "scheduler/precedences.h"
#include "scheduler/state_network.h"
#include "tests/scheduler/graphs.h"

namespace schedule {
namespace {

const Deadline kNoTimeLimit(1e300, nullptr);
const Deadline kTimeIsOver(0, nullptr);

Bytes least_peak(const Problem& problem) {
  Incumbent incumbent(problem, given_order(problem));
  REQUIRE(search_downsets(problem, incumbent, {kNoTimeLimit}, "test"));
  return incumbent.peak();
}

// Whether the node is reached by following the lists.
bool reaches(const Lists& lists, NodeId from, NodeId to) {
  std::set<NodeId> seen{from};
  std::vector<NodeId> queue{from};
  for (std::size_t head = 0; head < queue.size(); ++head) {
    for (const NodeId next : lists[queue[head]]) {
      if (seen.insert(next).second) {
        queue.push_back(next);
      }
    }
  }
  return seen.contains(to);
}

Problem with_precedence(const Graph& graph, NodeId first, NodeId second) {
  Problem problem = make_problem(graph, false);
  Lists preds;
  Lists succs;
  for (NodeId n = 0; n < problem.nodes(); ++n) {
    std::vector<NodeId> before(problem.preds[n].begin(), problem.preds[n].end());
    std::vector<NodeId> after(problem.succs[n].begin(), problem.succs[n].end());
    if (n == second) {
      before.push_back(first);
    }
    if (n == first) {
      after.push_back(second);
    }
    preds.push(before);
    succs.push(after);
  }
  problem.preds = preds;
  problem.succs = succs;
  return problem;
}

TEST_CASE("state network: what it costs that another node has run, or has not", "[schedule]") {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    const Graph graph = test::random_graph(seed, {.nodes = 12});
    const Problem problem = make_problem(graph, false);
    for (NodeId n = 0; n < problem.nodes(); ++n) {
      std::vector<bool> earlier;
      std::vector<bool> later;
      for (NodeId m = 0; m < problem.nodes(); ++m) {
        earlier.push_back(m != n && reaches(problem.preds, n, m));
        later.push_back(reaches(problem.succs, n, m));
      }
      StateNetwork network(problem, n, earlier, later);
      REQUIRE(network.solve(kNoTimeLimit)->while_running ==
              cheapest_state(problem, n, kNoTimeLimit)->while_running);
      CHECK_FALSE(network.least_if(n, true, kTimeIsOver));
      for (NodeId m = 0; m < problem.nodes(); ++m) {
        if (!earlier[static_cast<std::size_t>(m)] && !later[static_cast<std::size_t>(m)]) {
          CAPTURE(seed, n, m);
          REQUIRE(network.least_if(m, true, kNoTimeLimit) ==
                  cheapest_state(with_precedence(graph, m, n), n, kNoTimeLimit)->while_running);
          REQUIRE(network.least_if(m, false, kNoTimeLimit) ==
                  cheapest_state(with_precedence(graph, n, m), n, kNoTimeLimit)->while_running);
        }
      }
    }
  }
}

TEST_CASE(
    "precedences: a limit that can be kept is never refuted, and the best order keeps what follows",
    "[schedule]") {
  int cut_is_low = 0;
  int refuted = 0;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    const bool coalesce = seed % 2 == 0;
    CAPTURE(seed, coalesce);
    const Problem problem = make_problem(test::random_graph(seed, {.nodes = 12}), coalesce);
    const Bytes least = least_peak(problem);
    for (const Bytes limit : {least, least + 3}) {
      Precedences kept(problem);
      REQUIRE(kept.deduce(limit, kNoTimeLimit) == Precedences::Verdict::kOpen);
      REQUIRE(least_peak(kept.problem()) == least);
      REQUIRE(kept.deduce(limit, kTimeIsOver) == Precedences::Verdict::kLate);
    }
    Bytes bound = 0;
    for (NodeId n = 0; n < problem.nodes(); ++n) {
      bound = std::max(bound, cheapest_state(problem, n, kNoTimeLimit)->while_running);
    }
    Precedences below(problem);
    const bool is_refuted = below.deduce(least - 1, kNoTimeLimit) == Precedences::Verdict::kRefuted;
    REQUIRE((is_refuted || bound < least));
    cut_is_low += bound < least ? 1 : 0;
    refuted += bound < least && is_refuted ? 1 : 0;
  }
  CHECK(cut_is_low >= 10);
  CHECK(refuted >= cut_is_low / 2);
}

TEST_CASE("precedences: what was added for a limit holds for a lower one", "[schedule]") {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    CAPTURE(seed);
    const Problem problem = make_problem(test::random_graph(seed, {.nodes = 12}), false);
    const Bytes least = least_peak(problem);
    Precedences precedences(problem);
    REQUIRE(precedences.deduce(least + 5, kNoTimeLimit) == Precedences::Verdict::kOpen);
    const std::size_t before = precedences.added();
    REQUIRE(precedences.deduce(least, kNoTimeLimit) == Precedences::Verdict::kOpen);
    REQUIRE(precedences.added() >= before);
    REQUIRE(least_peak(precedences.problem()) == least);
  }
}

TEST_CASE("precedences: as a strategy, proves what it says", "[schedule]") {
  int proved = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    CAPTURE(seed);
    const Graph graph = test::random_graph(seed, {.nodes = 14});
    const Bytes least = least_peak(make_problem(graph, false));
    const Outcome outcome = schedule(graph, "precedences", {.seconds = 30});
    REQUIRE(outcome.lower_bound <= least);
    REQUIRE(outcome.peak >= least);
    proved += outcome.optimal ? 1 : 0;
  }
  CHECK(proved == 60);
}

TEST_CASE("downsets: nothing is looked for at or above a ceiling", "[schedule]") {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    CAPTURE(seed);
    const Problem problem = make_problem(test::random_graph(seed, {.nodes = 14}), false);
    const Bytes least = least_peak(problem);
    Incumbent none(problem, given_order(problem));
    const Bytes given = none.peak();
    CHECK(search_downsets(problem, none, {.deadline = kNoTimeLimit, .ceiling = least}, "test"));
    CHECK(none.peak() == given);
    CHECK(none.bound() == least);
    Incumbent best(problem, given_order(problem));
    CHECK(search_downsets(problem, best, {.deadline = kNoTimeLimit, .ceiling = least + 1}, "test"));
    CHECK(best.peak() == least);
  }
}

}  // namespace
}  // namespace schedule
