// The shapes of a parametric plan: when another one begins, and how often one may be laid out.
#include "src/follow/shapes.h"

#include <catch2/catch.hpp>
#include <vector>

#include "tests/support/units.h"

namespace memo {
namespace {

constexpr std::uint32_t kSteps = 12;
constexpr std::uint64_t kNoLimit = 1ULL << 40;

// Steps of one, two and three times the first size, one upon the other.
struct ShapesFixture {
  ShapesFixture() {
    for (std::uint32_t i = 0; i < kSteps; ++i) {
      steps.push_back({.rule = {.constant = 0, .slope = 1.0 + i % 3, .curve = 0, .x0 = 0, .x1 = 0},
                       .site = 0,
                       .lifetime = kSteps - i,
                       .alignment_log2 = 6});
      for (std::uint32_t below = 0; below < i; ++below) {
        supports.push_back({StepIndex{i}, StepIndex{below}});
      }
    }
    plan = {steps.data(), kSteps, supports.data(), static_cast<std::uint32_t>(supports.size()), 0};
    REQUIRE(shapes.open(plan));
  }
  static std::uint64_t bytes(std::uint64_t first, std::uint32_t step) {
    return first * (1 + step % 3);
  }
  std::vector<SymbolicStep> steps;
  std::vector<Support> supports;
  SymbolicPlan plan;
  Shapes shapes;
};

TEST_CASE_METHOD(ShapesFixture,
                 "shapes: one that was as large before is believed at its first call", "[follow]") {
  REQUIRE(shapes.lay_out({100'000, 0_step}, kNoLimit) == 0_step);
  CHECK(shapes.begins_another(0_step, 50'000));
  CHECK_FALSE(shapes.begins_another(0_step, 100'000));
  CHECK_FALSE(shapes.begins_another(0_step, 100'001));
  CHECK_FALSE(shapes.begins_another(1_step, 50'000));
  CHECK(shapes.lay_out({200'000, 4_step}, kNoLimit) == 4_step);
  CHECK(shapes.begins_another(0_step, 150'000));
  CHECK(shapes.lay_out({300'000, 0_step}, 1 << 20) == kNoStep);
}

TEST_CASE_METHOD(ShapesFixture, "shapes: a larger one is found when some of its calls have come",
                 "[follow]") {
  REQUIRE(shapes.lay_out({100'000, 0_step}, kNoLimit) == 0_step);
  Shapes::Start start;
  std::uint32_t calls = 0;
  bool found = false;
  for (std::uint32_t step = 0; step < kSteps && !found; ++step) {
    found = shapes.find(bytes(200'000, step), false, start);
    ++calls;
  }
  REQUIRE(found);
  CHECK(calls == tuning::kFit);
  CHECK(start.first == 200'000);
  CHECK(start.step == StepIndex{calls});
}

TEST_CASE_METHOD(ShapesFixture, "shapes: an extra call begins no shape", "[follow]") {
  REQUIRE(shapes.lay_out({100'000, 0_step}, kNoLimit) == 0_step);
  Shapes::Start start;
  for (std::uint32_t step = 0; step < 3 * kSteps; ++step) {
    if (step % 5 == 0) {
      CHECK_FALSE(shapes.find(77'777, false, start));
    }
    CHECK_FALSE(shapes.find(bytes(100'000, step % kSteps), true, start));
  }
}

TEST_CASE_METHOD(ShapesFixture, "shapes: calls earn the steps that may be laid out", "[follow]") {
  const auto kAll = static_cast<std::uint32_t>(tuning::kMaxPlanBytes / 32);
  REQUIRE(shapes.afford(kAll, 1000));
  CHECK_FALSE(shapes.afford(1, 1000));
  CHECK(shapes.afford(static_cast<std::uint32_t>(tuning::kCallWork), 1001));
  CHECK_FALSE(shapes.afford(1, 1001));
  CHECK(shapes.afford(kAll, 1000 + kAll));
}

TEST_CASE_METHOD(ShapesFixture,
                 "shapes: as many steps as the largest file has are saved up at most", "[follow]") {
  CHECK(shapes.afford(131'000, 1000));
  CHECK_FALSE(shapes.afford(1000, 1000));
  CHECK(shapes.afford(131'000, 1'000'000));
  CHECK_FALSE(shapes.afford(1000, 1'000'000));
}

TEST_CASE_METHOD(ShapesFixture, "shapes: a call earns some dozens of steps", "[follow]") {
  REQUIRE(shapes.afford(131'000, 1000));
  CHECK(shapes.afford(5'000, 1100));
  CHECK_FALSE(shapes.afford(5'000, 1150));
}

}  // namespace
}  // namespace memo
