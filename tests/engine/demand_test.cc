// What a stream without a plan asks of the pool, over windows of calls.
#include "src/engine/demand.h"

#include <catch2/catch.hpp>

namespace memo {
namespace {

const std::uint32_t kWindow = tuning::kPoolWindow;

TEST_CASE("demand: is learned when half a window has brought no new peak", "[engine]") {
  Demand demand;
  REQUIRE(demand.look(100) == Demand::Look::kNewLoop);
  for (std::uint32_t call = 1; call < kWindow; ++call) {
    // It grows a little until the window's middle.
    REQUIRE(demand.look(call < kWindow / 2 ? 100 + call % 2 : 101) == Demand::Look::kNothing);
  }
  CHECK(demand.look(101) == Demand::Look::kLearned);
  CHECK(demand.look(101) == Demand::Look::kLearned);
  CHECK(demand.look(102) == Demand::Look::kNothing);
  CHECK(demand.look(200) == Demand::Look::kNewLoop);
  CHECK(demand.look(200) == Demand::Look::kNothing);
}

TEST_CASE("demand: a search counts as an unordered one once", "[engine]") {
  Demand demand;
  std::uint32_t times = 0;
  for (std::uint32_t call = 0; call < 16 * tuning::kPoolWindow; ++call) {
    demand.look(100);
    times += demand.unordered() ? 1U : 0U;
  }
  CHECK(times == 1);
}

TEST_CASE("demand: stacks are unwound after short windows, and not for ever", "[engine]") {
  Demand demand;
  const auto windows = [&](std::uint32_t count, std::uint64_t lacked_of_1000) {
    for (std::uint32_t call = 0; call < count * kWindow; ++call) {
      demand.judge(call % 1000 < lacked_of_1000 ? 10 : 1, call % 1000 >= lacked_of_1000);
    }
  };
  demand.look(100);
  windows(8, 0);
  CHECK_FALSE(demand.wants_sites());
  windows(tuning::kShortWindows - 1, 900);
  CHECK_FALSE(demand.wants_sites());
  windows(1, 900);
  CHECK(demand.wants_sites());
  for (std::uint32_t call = 0; call < 64 * tuning::kPoolWindow; ++call) {
    demand.look(100);
  }
  CHECK_FALSE(demand.wants_sites());
  demand.planned();
  windows(tuning::kShortWindows, 900);
  CHECK(demand.wants_sites());
  demand.look(1000);  // something new has begun
  CHECK_FALSE(demand.wants_sites());
}

Demand searching(std::uint32_t calls) {
  Demand demand;
  for (std::uint32_t call = 0; call < calls; ++call) {
    demand.look(100);
  }
  return demand;
}

TEST_CASE("demand: is learned after some hundred calls", "[engine]") {
  CHECK(searching(200).look(100) == Demand::Look::kNothing);
  CHECK(searching(300).look(100) == Demand::Look::kLearned);
}

TEST_CASE("demand: stacks are unwound for some ten thousand calls", "[engine]") {
  const auto wants = [](std::uint32_t calls) {
    Demand demand = searching(calls);
    for (std::uint32_t call = 0; call < 1024; ++call) {
      demand.judge(1, false);
    }
    return demand.wants_sites();
  };
  CHECK(wants(12'000));
  CHECK_FALSE(wants(24'000));
}

TEST_CASE("demand: four iterations of a small network are no unordered stream", "[engine]") {
  Demand demand = searching(1500);
  std::uint32_t times = 0;
  const auto look = [&](std::uint32_t calls) {
    for (std::uint32_t call = 0; call < calls; ++call) {
      demand.look(100);
      times += demand.unordered() ? 1U : 0U;
    }
  };
  look(500);
  CHECK(times == 0);
  look(1500);
  CHECK(times == 1);
}

TEST_CASE("demand: one short window is chance, and a peak that grows a little is no new loop",
          "[engine]") {
  Demand demand;
  demand.look(1000);
  const auto window = [&] {
    for (std::uint32_t call = 0; call < kWindow; ++call) {
      demand.judge(1, false);
    }
  };
  window();
  CHECK_FALSE(demand.wants_sites());
  CHECK(demand.look(1100) == Demand::Look::kNothing);
  window();
  CHECK(demand.wants_sites());
  CHECK(demand.look(1200) == Demand::Look::kNewLoop);
}

TEST_CASE("demand: a window is short when a hundredth of its bytes lacked, not a two-hundredth",
          "[engine]") {
  const auto short_at = [](std::uint64_t part) {
    Demand demand;
    demand.look(1000);
    for (std::uint32_t call = 0; call < 1024; ++call) {
      demand.judge(call % 256 == 0 ? 255 : part - 1, call % 256 != 0);
    }
    return demand.wants_sites();
  };
  CHECK(short_at(100));
  CHECK_FALSE(short_at(200));
}

}  // namespace
}  // namespace memo
