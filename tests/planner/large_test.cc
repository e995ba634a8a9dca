// What the portfolio does to problems of many buffers: obstacles, demand, repair and joining.
#include <algorithm>
#include <catch2/catch.hpp>

#include "bench/planner_instances.h"
#include "dsa/planner.h"
#include "dsa/validate.h"
#include "planner/coalesce.h"
#include "planner/demand.h"
#include "planner/obstacles.h"
#include "planner/repair.h"
#include "planner/strategies.h"
#include "tests/support/problems.h"

using namespace dsa::testing;  // NOLINT(google-build-using-namespace): the generators of these
                               // tests

namespace {

dsa::Budget budget_of(const dsa::Model& model, double seconds) {
  return {{.seconds = seconds}, model.bound, dsa::Budget::Clock::now()};
}

}  // namespace

TEST_CASE("large: problems with gaps, alignments and fixed offsets are planned validly",
          "[planner]") {
  const auto seed = Catch::rngSeed();
  INFO("seed " << seed);
  for (std::uint64_t i = 0; i < 8; ++i) {
    const Shape shape{.buffers = 2100,
                      .horizon = 1500,
                      .largest = 1000,
                      .gaps = i % 2 == 1,
                      .alignment = i / 2 % 2 == 1,
                      .fixed = i / 4 == 1};
    const dsa::Problem problem = random_problem(shape, seed + i);
    const dsa::Outcome outcome =
        dsa::plan(problem, {.capacity = dsa::lower_bound(problem) * 5 / 4, .seconds = 30});
    INFO("problem " << i << ": " << outcome.reason);
    REQUIRE(outcome.plan);
    const dsa::Verdict verdict = dsa::validate(problem, *outcome.plan);
    INFO(verdict.reason);
    CHECK(verdict);
  }
}

TEST_CASE("large: a repair never raises a plan, and lowers a wasteful one", "[planner]") {
  const auto seed = Catch::rngSeed();
  INFO("seed " << seed);
  for (std::uint64_t i = 0; i < 6; ++i) {
    const dsa::Problem problem = random_problem({.buffers = 1500,
                                                 .horizon = 1000,
                                                 .largest = 1000,
                                                 .gaps = i % 2 == 1,
                                                 .alignment = i % 3 == 1,
                                                 .fixed = i / 3 == 1},
                                                seed + i);
    const dsa::Model model(problem);
    const dsa::Found first = dsa::first_fit(model, budget_of(model, 60));
    REQUIRE(first.offsets);
    const dsa::Bytes before = dsa::height_of(model, *first.offsets);
    // Seconds where an improvement is asked for: a sanitizer makes it many times slower.
    const dsa::Offsets after =
        dsa::repair(model, *first.offsets, budget_of(model, model.has_fixed ? 0.3 : 3));
    const dsa::Plan plan = model.plan_of(after);
    CHECK(dsa::validate(problem, plan));
    CHECK(plan.height <= before);
    if (!model.has_fixed) {  // which leave first fit's plan little to gain
      CHECK(plan.height < before);
    }
    // Out of time at once: the plan as it was.
    CHECK(dsa::repair(model, *first.offsets, budget_of(model, 0)) == *first.offsets);
  }
}

TEST_CASE("large: a rectangle that was cut up is joined again", "[planner]") {
  const auto seed = Catch::rngSeed();
  INFO("seed " << seed);
  const dsa::Problem problem =
      bench::guillotine(2000, seed, 0.5, 1'000'000'000'000, 1'000'000'000'000);
  const dsa::Model model(problem);
  REQUIRE(dsa::can_coalesce(model));
  const dsa::Blocks blocks = dsa::coalesce(model, budget_of(model, 60));
  REQUIRE(blocks.roots() == 1);
  const dsa::Plan plan = model.plan_of(dsa::take_apart(blocks, {0}));
  CHECK(dsa::validate(problem, plan));
  CHECK(plan.height == model.bound);
}

TEST_CASE("large: that joined blocks do not fit proves nothing of what they are made of",
          "[planner]") {
  const dsa::Bytes rows[][3] = {{29, 33, 2}, {18, 21, 1},  {39, 40, 12}, {1, 15, 3},   {35, 38, 17},
                                {0, 11, 8},  {11, 29, 4},  {15, 18, 1},  {27, 29, 11}, {20, 23, 1},
                                {0, 27, 7},  {1, 8, 1},    {27, 40, 1},  {36, 40, 2},  {8, 15, 2},
                                {23, 29, 1}, {29, 33, 15}, {38, 39, 12}, {16, 20, 1},  {38, 40, 1},
                                {0, 1, 4},   {33, 35, 17}, {38, 40, 4},  {27, 29, 1},  {15, 27, 2},
                                {11, 27, 4}, {15, 16, 1},  {15, 36, 1},  {27, 36, 1},  {21, 27, 1},
                                {0, 8, 1}};
  dsa::Problem problem;
  for (const auto& [lower, upper, size] : rows) {
    problem.buffers.push_back({.lower = lower, .upper = upper, .size = size});
  }
  const dsa::Outcome outcome = dsa::plan(problem, {.capacity = 20, .seconds = 60});
  INFO(outcome.reason);
  REQUIRE(outcome.plan);
  CHECK(outcome.plan->height == 20);
}

TEST_CASE("large: demand is the load and the waste of each section", "[planner]") {
  const auto seed = Catch::rngSeed();
  INFO("seed " << seed);
  const dsa::Model model(random_problem({.buffers = 60, .horizon = 40}, seed));
  const auto sections = static_cast<dsa::Section>(model.load.size());
  dsa::Demand demand(model);
  demand.reset();
  std::vector<dsa::Bytes> expected = model.load;
  std::mt19937_64 random(seed);
  for (int i = 0; i < 200; ++i) {
    auto a = static_cast<dsa::Section>(random() % model.load.size());
    auto b = static_cast<dsa::Section>(random() % model.load.size());
    const dsa::Span span{std::min(a, b), std::max(a, b) + 1};
    REQUIRE(span.upper <= sections);
    const auto greatest =
        std::max_element(expected.begin() + span.lower, expected.begin() + span.upper);
    CHECK(demand.most(span).height == *greatest);
    CHECK(demand.most(span).section == greatest - expected.begin());
    const auto bytes = static_cast<dsa::Bytes>(random() % 50);
    demand.waste(span, bytes);
    std::for_each(expected.begin() + span.lower, expected.begin() + span.upper,
                  [bytes](dsa::Bytes& height) { height += bytes; });
  }
}

TEST_CASE("large: obstacles are found from the bottom up", "[planner]") {
  const dsa::Problem problem{{{.lower = 0, .upper = 4, .size = 2, .fixed = 7},
                              {.lower = 2, .upper = 6, .size = 3, .fixed = 1},
                              {.lower = 5, .upper = 8, .size = 1, .fixed = 4},
                              {.lower = 0, .upper = 8, .size = 1}}};
  const dsa::Model model(problem);
  dsa::Obstacles obstacles(model);
  obstacles.reset();
  const dsa::Span all{0, static_cast<dsa::Section>(model.load.size())};
  const auto next = [&] {
    const auto* const lowest = obstacles.lowest(all);
    REQUIRE(lowest != nullptr);
    const dsa::Offset bottom = lowest->bottom;
    CHECK(obstacles.ceiling(lowest->span) == bottom);
    obstacles.pass(*lowest);
    return bottom;
  };
  CHECK(next() == 1);
  CHECK(next() == 4);
  CHECK(next() == 7);
  CHECK(obstacles.lowest(all) == nullptr);
}
