// The table of transitions against what each event must do in each phase.
#include <catch2/catch.hpp>
#include <string_view>

#include "src/engine/tracker_stages.h"
#include "tests/support/transitions.h"

namespace memo {
namespace {

using testing::kAllPhases;
using testing::kExpected;
using testing::needs_plan;

TEST_CASE("tracker: each pair of phase and event does what it must, or nothing", "[engine]") {
  constexpr std::string_view kLetters = "ILRSP";
  const bool learns = GENERATE(true, false);
  for (std::uint32_t number = 0; number < kEvents; ++number) {
    const auto event = static_cast<Event>(number);
    for (const Phase from : kAllPhases) {
      StoredPlan plan;
      Counters counters;
      TrackerState s;
      s.tally.open(&counters);
      s.learns = learns;
      s.phase = from;
      const bool with_plan = needs_plan(from) || event == Event::kPlanMade ||
                             event == Event::kOpened || event == Event::kRefused ||
                             event == Event::kUnusable;
      s.serving.plan = with_plan ? &plan : nullptr;
      const std::string_view row = learns ? kExpected[number].learns : kExpected[number].cannot;
      const char expected = row[static_cast<std::size_t>(from)];
      INFO(kExpected[number].name << " in " << kLetters[static_cast<std::size_t>(from)]);
      REQUIRE(stages::move(s, event) == (expected != '.'));
      if (expected == '.') {
        CHECK(s.phase == from);
        CHECK((s.serving.plan != nullptr) == with_plan);
        CHECK(s.effects == 0);
        CHECK(s.left_count == 0);
        continue;
      }
      const Phase to = s.phase;
      CHECK(kLetters[static_cast<std::size_t>(to)] == expected);
      const bool goes = event == Event::kOtherPlan || !needs_plan(to);
      CHECK((s.serving.plan != nullptr) == !goes);
      const bool forgotten = event == Event::kOrphaned || event == Event::kAbandoned;
      CHECK(s.left_count == (with_plan && goes && !forgotten ? 1 : 0));
      CHECK(((s.effects & kRelease) != 0) == (s.left_count != 0));
      CHECK(((s.effects & kTellPhase) != 0) == (to != from && to != Phase::kReady));
      CHECK(((s.effects & kStarted) != 0) == (to == Phase::kServing && from != Phase::kServing));
      CHECK(((s.effects & kPurge) != 0) == (event == Event::kForked));
    }
  }
}

}  // namespace
}  // namespace memo
