// Buffers with gaps and fixed offsets in the tree search, and loops that are cut open and closed again.
#include <catch2/catch.hpp>

#include "bench/planner_instances.h"
#include "dsa/planner.h"
#include "dsa/validate.h"
#include "planner/decide.h"
#include "planner/strategies.h"
#include "planner/wrapped.h"
#include "tests/support/problems.h"

using namespace dsa::testing;  // NOLINT(google-build-using-namespace): the generators of these
                               // tests

namespace {

constexpr double kAmple = 60;  // seconds; never spent

dsa::Budget budget_of(dsa::Bytes target, double seconds) {
  return {{.seconds = seconds}, target, dsa::Budget::Clock::now()};
}

void check_plan(const dsa::Problem& problem, const dsa::Model& model, const dsa::Offsets& offsets) {
  const dsa::Verdict verdict = dsa::validate(problem, model.plan_of(offsets));
  INFO(verdict.reason << " " << verdict.i << " " << verdict.j);
  CHECK(verdict);
}

}  // namespace

TEST_CASE("tree search: what is pinned lies where it must", "[planner]") {
  const auto seed = Catch::rngSeed();
  INFO("seed " << seed);
  std::uint64_t missed = 0;
  for (std::uint64_t i = 0; i < rounds(30); ++i) {
    INFO("problem " << i);
    const dsa::Problem problem = random_problem({.buffers = 61 + i,
                                                 .horizon = 40,
                                                 .largest = 50,
                                                 .gaps = i % 3 != 0,
                                                 .alignment = i % 4 == 1,
                                                 .fixed = i % 3 != 1},
                                                seed + i);
    const dsa::Model model(problem);
    dsa::SearchPool pool(model, seed);
    const dsa::Bytes wide = 2 * model.bound + 100;
    const dsa::Decision likely = pool.ask(wide, budget_of(wide, 2));
    if (likely.offsets) {
      check_plan(problem, model, *likely.offsets);
    } else {
      ++missed;  // where parts hang together the search does not see every packing
    }
    const dsa::Bytes narrow = model.bound + model.bound / 8;
    const dsa::Decision maybe = pool.ask(narrow, budget_of(narrow, 0.05));
    if (maybe.offsets) {
      CHECK(dsa::height_of(model, *maybe.offsets) <= narrow);
      check_plan(problem, model, *maybe.offsets);
    }
    CHECK_FALSE(maybe.impossible);  // nothing is proved of such problems
  }
  CHECK(missed <= 1 + rounds(30) / 10);
}

TEST_CASE("descent: fixed offsets count in what heights can be", "[planner]") {
  const dsa::Model model({{{.lower = 0, .upper = 1, .size = 1024, .fixed = 512},
                           {.lower = 1, .upper = 2, .size = 1024}}});
  const dsa::Found found = dsa::Descent(model, 1).run({512, 1024}, budget_of(model.bound, kAmple));
  REQUIRE(found.offsets);
  CHECK(dsa::height_of(model, *found.offsets) == 1536);
}

TEST_CASE("wrapped: a period cut open is closed again", "[planner]") {
  const auto seed = Catch::rngSeed();
  INFO("seed " << seed);
  for (std::uint64_t i = 0; i < rounds(30); ++i) {
    INFO("problem " << i);
    const dsa::Problem problem = bench::wrapped(100 + 10 * i, seed + i);
    const dsa::Model model(problem);
    REQUIRE(dsa::is_wrapped(model));
    const dsa::Found found =
        dsa::plan_wrapped(model, budget_of(2 * model.bound, kAmple), dsa::strip_packing_best_fit);
    REQUIRE(found.offsets);
    check_plan(problem, model, *found.offsets);
  }
}

TEST_CASE("wrapped: only loops are cut open", "[planner]") {
  const auto wraps = [](const dsa::Problem& problem) {
    return dsa::is_wrapped(dsa::Model(problem));
  };
  const dsa::Buffer whole{.lower = 0, .upper = 10, .size = 4};
  const dsa::Buffer first{.lower = 0, .upper = 1, .size = 4};
  dsa::Buffer round = whole;
  round.gaps = {{3, 7}};
  const dsa::Buffer inside{.lower = 1, .upper = 9, .size = 4, .gaps = {{3, 7}}};
  dsa::Buffer twice = whole;
  twice.gaps = {{2, 3}, {5, 6}};
  dsa::Buffer fixed = whole;
  fixed.fixed = 8;
  CHECK(wraps({{whole, round}}));
  CHECK_FALSE(wraps({{first, inside, whole}}));
  CHECK_FALSE(wraps({{whole, twice}}));
  CHECK_FALSE(wraps({{fixed, round}}));
  CHECK_FALSE(wraps({{whole}}));
}
