// The index that finds a place in a plan by the sizes of the last calls.
#include "src/follow/cursor.h"

#include <catch2/catch.hpp>
#include <vector>

#include "tests/support/schedules.h"

namespace memo {
namespace {

using testing::OwnSchedule;
using testing::sizes;
using testing::stacked;

TEST_CASE("context index: finds every place of a plan", "[follow]") {
  const std::vector<std::uint64_t> plan = sizes(100);
  const OwnSchedule own(stacked(plan));
  for (std::uint32_t step = 0; step < 100; ++step) {
    const Recent recent{{plan[(step + 98) % 100], plan[(step + 99) % 100], plan[step]}};
    for (const std::uint32_t from : {0U, step, (step + 1) % 100}) {
      CHECK(own.index.find(own.schedule, recent, StepIndex{from}) == StepIndex{step});
    }
  }
  CHECK(own.index.find(own.schedule, {plan[0], plan[1], plan[3]}, 0_step) == kNoStep);
  CHECK(own.index.find(own.schedule, {0, 0, 0}, 0_step) == kNoStep);
}

TEST_CASE("context index: of equal places the next one in cyclic order", "[follow]") {
  // 1 2 3 4  1 2 3 5  1 2 3 6
  std::vector<std::uint64_t> plan;
  for (const std::uint64_t last : {4UL, 5UL, 6UL}) {
    plan.insert(plan.end(), {1, 2, 3, last});
  }
  const OwnSchedule own(stacked(plan));
  const auto find = [&](StepIndex from) { return own.index.find(own.schedule, {1, 2, 3}, from); };
  CHECK(find(0_step) == 2_step);
  CHECK(find(2_step) == 2_step);
  CHECK(find(3_step) == 6_step);
  CHECK(find(7_step) == 10_step);
  CHECK(find(11_step) == 2_step);
  CHECK(own.index.find(own.schedule, {6, 1, 2}, 5_step) == 1_step);  // across the end
}

TEST_CASE("context index: plans shorter than a context", "[follow]") {
  const OwnSchedule one(stacked({7}));
  CHECK(one.index.find(one.schedule, {7, 7, 7}, 0_step) == 0_step);
  CHECK(one.index.find(one.schedule, {7, 8, 7}, 0_step) == kNoStep);
  const OwnSchedule two(stacked({7, 8}));
  CHECK(two.index.find(two.schedule, {7, 8, 7}, 0_step) == 0_step);
  CHECK(two.index.find(two.schedule, {8, 7, 8}, 0_step) == 1_step);
}

TEST_CASE("context index: of dozens of equal places the right one is found, not of a hundred",
          "[follow]") {
  const OwnSchedule own(stacked(std::vector<std::uint64_t>(200, 7)));
  CHECK(own.index.find(own.schedule, {7, 7, 7}, 50_step) == 50_step);
  CHECK(own.index.find(own.schedule, {7, 7, 7}, 100_step) == 0_step);
}

}  // namespace
}  // namespace memo
