// The table of transitions against what each event must do in each phase.
#include <catch2/catch.hpp>
#include <string_view>

#include "src/engine/phase.h"
#include "tests/support/transitions.h"

namespace memo {
namespace {

using testing::kAllPhases;
using testing::kExpected;
using testing::needs_plan;

struct Row {
  Phase from;
  Event event;
  When when;
  Phase to;
  std::string_view effects;
};
constexpr Row kRows[] = {
#define TRANSITION(from, event, condition, to, effects, text) \
  {Phase::from, Event::event, When::condition, Phase::to, #effects},
#include "src/engine/tracker.def"
#undef TRANSITION
};

TEST_CASE("tracker: each pair of phase and event does what it must, or nothing", "[engine]") {
  constexpr std::string_view kLetters = "ILRSP";
  const bool learns = GENERATE(true, false);
  for (std::uint32_t number = 0; number < kEvents; ++number) {
    const auto event = static_cast<Event>(number);
    for (const Phase from : kAllPhases) {
      const std::string_view expected =
          learns ? kExpected[number].learns : kExpected[number].cannot;
      const char letter = expected[static_cast<std::size_t>(from)];
      INFO(kExpected[number].name << " in " << kLetters[static_cast<std::size_t>(from)]);
      const Row* found = nullptr;
      for (const Row& row : kRows) {
        const bool holds = row.when == When::kAlways || (row.when == When::kLearns) == learns;
        if (row.from == from && row.event == event && holds) {
          REQUIRE(found == nullptr);  // no two rows are for one case
          found = &row;
        }
      }
      REQUIRE((found != nullptr) == (letter != '.'));
      if (found == nullptr) {
        continue;
      }
      const auto does = [&](std::string_view effect) {
        return found->effects.find(effect) != std::string_view::npos;
      };
      CHECK(kLetters[static_cast<std::size_t>(found->to)] == letter);
      const bool with_plan =
          needs_plan(from) || event == Event::kRefused || event == Event::kUnusable;
      const bool goes = event == Event::kOtherPlan || (with_plan && !needs_plan(found->to));
      CHECK(does("kRelease") == goes);
      CHECK(does("kStarted") == (found->to == Phase::kServing && from != Phase::kServing));
      CHECK(does("kGiveBack") == (event == Event::kForked));
    }
  }
}

}  // namespace
}  // namespace memo
