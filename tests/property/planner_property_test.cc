// Every planner of the registry, on random problems: its plans are valid, not below the bound, the
// same for the same seed; and for small problems an exhaustive search says what is optimal.
#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>
#include <random>

#include "bench/planner_instances.h"
#include "dsa/planner.h"
#include "dsa/validate.h"
#include "tests/support/brute_force.h"
#include "tests/support/problems.h"
#include "tests/support/skip.h"

using namespace dsa::testing;  // NOLINT(google-build-using-namespace): the generators of these
                               // tests

namespace {

constexpr double kProof = 300;     // never spent: only a limit for what proves its optimum
constexpr double kSeconds = 0.01;  // enough for all but the exact ones, which must keep to it

void check_all(const dsa::Problem& problem, const dsa::Options& options) {
  for (const dsa::Planner& planner : dsa::planners()) {
    INFO("planner " << planner.name);
    const dsa::Outcome outcome = planner.run(problem, options);
    CHECK(outcome.lower_bound == dsa::lower_bound(problem));
    if (!outcome.plan) {
      CHECK_FALSE(outcome.reason.empty());
      CHECK_FALSE(outcome.optimal);
      continue;
    }
    const dsa::Verdict verdict = dsa::validate(problem, *outcome.plan);
    INFO(verdict.reason << " " << verdict.i << " " << verdict.j);
    CHECK(verdict);
    CHECK(outcome.plan->height >= outcome.lower_bound);
    CHECK((!options.capacity || outcome.plan->height <= *options.capacity));
    CHECK_FALSE(outcome.infeasible);
  }
}

// The MIP needs a solver that not every machine has.
bool has_solver(const dsa::Planner& planner) {
  return planner.name != "mip" || planner.run({}, {}).plan.has_value();
}

}  // namespace

TEST_CASE("planners: plans of random problems are valid", "[planner][property]") {
  const auto seed = Catch::rngSeed();
  INFO("seed " << seed);
  for (std::uint64_t i = 0; i < rounds(150); ++i) {
    INFO("problem " << i);
    const Shape shape{.buffers = 1 + i % 40,
                      .horizon = static_cast<dsa::Time>(1 + i % 30),
                      .largest = static_cast<dsa::Bytes>(i % 20),
                      .gaps = i % 2 == 0,
                      .alignment = i % 3 == 0,
                      .fixed = i % 5 == 0};
    check_all(random_problem(shape, seed + i), {.seconds = kSeconds});
  }
}

TEST_CASE("planners: the same problem and seed give the same plan", "[planner][property]") {
  const auto seed = Catch::rngSeed();
  INFO("seed " << seed);
  const dsa::Problem problem =
      random_problem({.buffers = 60, .gaps = true, .alignment = true}, seed);
  for (const dsa::Planner& planner : dsa::planners()) {
    if (planner.exact) {
      continue;  // what they find may depend on where the time runs out
    }
    INFO("planner " << planner.name);
    const dsa::Outcome first = planner.run(problem, {.seed = 7});
    const dsa::Outcome second = planner.run(problem, {.seed = 7});
    REQUIRE(first.plan.has_value() == second.plan.has_value());
    if (first.plan) {
      CHECK(first.plan->offsets == second.plan->offsets);
    }
  }
}

TEST_CASE("planners: nothing beats the exhaustive search, and what is proved is so",
          "[planner][property]") {
  const auto seed = Catch::rngSeed();
  INFO("seed " << seed);
  for (std::uint64_t i = 0; i < rounds(150); ++i) {
    INFO("problem " << i);
    const Shape shape{.buffers = 2 + i / 6 % 6,  // each number with all of what follows
                      .horizon = 6,
                      .largest = 5,
                      .gaps = i % 2 == 0,
                      .alignment = i % 3 == 0,
                      .fixed = i % 7 == 0};
    dsa::Problem problem = random_problem(shape, seed + i);
    if (!shape.alignment && !shape.fixed && i % 4 == 1) {  // all the same
      for (dsa::Buffer& buffer : problem.buffers) {
        buffer.alignment = 4;
      }
    }
    const auto least = least_height(problem);
    for (const dsa::Planner& planner : dsa::planners()) {
      INFO("planner " << planner.name);
      // Who proves nothing looks for a better plan until the time is over.
      const dsa::Outcome outcome = planner.run(problem, {.seconds = planner.exact ? kProof : 0.2});
      if (!least) {
        CHECK_FALSE(outcome.plan);
        continue;
      }
      CHECK_FALSE(outcome.infeasible);
      CHECK(outcome.lower_bound <= *least);
      if (outcome.plan) {
        CHECK(outcome.plan->height >= *least);
        CHECK((!outcome.optimal || outcome.plan->height == *least));
      }
      if (planner.exact && has_solver(planner)) {
        REQUIRE(outcome.plan);
        CHECK(outcome.plan->height == *least);
        CHECK(outcome.optimal);
        const dsa::Outcome less = planner.run(problem, {.capacity = *least - 1, .seconds = kProof});
        CHECK_FALSE(less.plan);
        CHECK(less.infeasible);
        CHECK(planner.run(problem, {.capacity = *least, .seconds = kProof}).plan);
      }
    }
  }
}

TEST_CASE("planners: perfect packings are found", "[planner][property]") {
  const auto seed = Catch::rngSeed();
  INFO("seed " << seed);
  for (const std::size_t pieces : {30U, 60U, 100U}) {
    const dsa::Problem problem = bench::guillotine(pieces, seed + pieces, 0.5, 1000000, 1000000);
    CHECK(dsa::lower_bound(problem) == 1000000);
    for (const dsa::Planner& planner : dsa::planners()) {
      if (planner.exact && planner.name != "mip") {  // which takes hours for them
        INFO("planner " << planner.name << ", " << pieces << " pieces");
        const dsa::Outcome outcome = planner.run(problem, {.seconds = kProof});
        REQUIRE(outcome.plan);
        CHECK(outcome.plan->height == 1000000);
      }
    }
  }
}

TEST_CASE("planners: a capacity out of reach in the time leaves no wrong plan",
          "[planner][property]") {
  const auto seed = Catch::rngSeed();
  INFO("seed " << seed);
  const dsa::Problem problem = bench::guillotine(300, seed, 0.5, 40, 100000);
  for (const double seconds : {0.0, 0.001, 0.03, 0.1}) {
    INFO("seconds " << seconds);
    check_all(problem, {.seconds = seconds});
    check_all(problem, {.capacity = dsa::lower_bound(problem), .seconds = seconds});
  }
}

TEST_CASE("planners: extreme problems get a plan or a reason", "[planner][property]") {
  constexpr dsa::Bytes kMax = std::numeric_limits<dsa::Bytes>::max();
  check_all({}, {});
  check_all({{{.lower = 0, .upper = 1, .size = kMax}}}, {});
  check_all({{{.lower = 0, .upper = 1, .size = 0}, {.lower = 0, .upper = 1, .size = 0}}}, {});
  check_all({{{.lower = std::numeric_limits<dsa::Time>::min(),
               .upper = std::numeric_limits<dsa::Time>::max(),
               .size = kMax / 2},
              {.lower = 0, .upper = 1, .size = kMax / 2}}},
            {.seconds = kSeconds});
  check_all({{{.lower = 0, .upper = 1, .size = 8, .fixed = 0},
              {.lower = 0, .upper = 1, .size = 8, .fixed = 4}}},
            {.seconds = kSeconds});
  check_all({{{.lower = 0, .upper = 9, .size = 8, .gaps = {{0, 9}}}}}, {});
  for (const dsa::Planner& planner : dsa::planners()) {
    INFO("planner " << planner.name);
    CHECK_FALSE(planner.run({{{.lower = 1, .upper = 0, .size = 1}}}, {}).plan);
  }
}

TEST_CASE("planners: what the MIP's solver cannot tell apart is not proved",
          "[planner][property]") {
  // Heights of more units than a solver's numbers have room for.
  const dsa::Planner& mip = *dsa::find_planner("mip");
  if (!has_solver(mip)) {
    memo::testing::skip("COIN-OR CBC is not installed");
    return;
  }
  constexpr dsa::Bytes kLarge = 1'000'000'000;
  const dsa::Problem problem{
      {{.lower = 3, .upper = 4, .size = 5 * kLarge, .alignment = 3},
       {.lower = 5, .upper = 11, .size = 5 * kLarge, .alignment = 8 * kLarge},
       {.lower = 0, .upper = 5, .size = kLarge, .alignment = 8, .gaps = {{2, 3}}},
       {.lower = 0, .upper = 3, .size = 5 * kLarge, .alignment = kLarge}}};
  const dsa::Outcome outcome = mip.run(problem, {.seconds = kProof});
  INFO(outcome.reason);
  CHECK_FALSE(outcome.infeasible);
  REQUIRE(outcome.plan);
  CHECK((!outcome.optimal || outcome.plan->height == outcome.lower_bound));
}

TEST_CASE("planners: a common alignment counts in the bound", "[planner][property]") {
  // Two whole units and the byte on top of them; and without the byte, which is not alive then.
  CHECK(dsa::lower_bound({{{.lower = 0, .upper = 2, .size = 50, .alignment = 64},
                           {.lower = 0, .upper = 2, .size = 1, .alignment = 64},
                           {.lower = 0, .upper = 2, .size = 60, .alignment = 64}}}) == 129);
  CHECK(dsa::lower_bound({{{.lower = 0, .upper = 3, .size = 50, .alignment = 64},
                           {.lower = 0, .upper = 3, .size = 60, .alignment = 128},
                           {.lower = 0, .upper = 3, .size = 1, .alignment = 64, .gaps = {{1, 3}}},
                           {.lower = 2, .upper = 3, .size = 2, .alignment = 64}}}) == 130);
  // Without one, the sum of the sizes.
  CHECK(dsa::lower_bound({{{.lower = 0, .upper = 2, .size = 50, .alignment = 64},
                           {.lower = 0, .upper = 2, .size = 1}}}) == 51);
  // More than there are numbers for.
  constexpr dsa::Bytes kHalf = dsa::Bytes{1} << 62;
  CHECK(dsa::lower_bound({{{.lower = 0, .upper = 1, .size = kHalf},
                           {.lower = 0, .upper = 1, .size = kHalf},
                           {.lower = 0, .upper = 1, .size = kHalf}}}) ==
        std::numeric_limits<dsa::Bytes>::max());
}

TEST_CASE("planners: a capacity below the bound is refused as impossible", "[planner][property]") {
  const dsa::Problem problem{
      {{.lower = 0, .upper = 2, .size = 4}, {.lower = 1, .upper = 3, .size = 4}}};
  for (const dsa::Planner& planner : dsa::planners()) {
    INFO("planner " << planner.name);
    const dsa::Outcome outcome = planner.run(problem, {.capacity = 7});
    CHECK_FALSE(outcome.plan);
    CHECK(outcome.infeasible);
  }
}
