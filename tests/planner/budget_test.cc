// When a strategy's time is over, whatever the clock does.
#include <catch2/catch.hpp>

#include "planner/strategy.h"

TEST_CASE("budget: a clock that stands still or goes back ends it", "[planner]") {
  using dsa::Budget;
  const Budget::Clock::time_point now = Budget::Clock::now();
  for (int time = 0; time < 2; ++time) {
    const Budget::Clock::time_point stopped = now + std::chrono::hours(time);
    bool early = Budget::stands_still(stopped);
    for (std::uint32_t look = 1; look < Budget::kStillLooks; ++look) {
      early = early || Budget::stands_still(stopped);
    }
    CHECK_FALSE(early);
    CHECK(Budget::stands_still(stopped));
    CHECK(Budget::stands_still(stopped));
  }
  constexpr double kAmple = 60;  // seconds; never spent
  CHECK_FALSE(Budget({.seconds = kAmple}, 1, now).expired());
  CHECK(Budget({.seconds = 0}, 1, now).expired());
  CHECK(Budget({.seconds = kAmple}, 1, now + std::chrono::hours(1)).expired());
}
