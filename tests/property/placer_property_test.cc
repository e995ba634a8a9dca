// The placer against a map of intervals: whatever plan it follows and whatever it is asked for, no
// two blocks share a byte, each lies where a step of its size says, and a refusal has its reason.
#include "src/follow/placer.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <set>
#include <vector>

#include "tests/support/placements.h"
#include "tests/support/schedules.h"
#include "tests/support/spaces.h"

namespace memo {
namespace {

using testing::below;
using testing::OwnSchedule;
using testing::Random;

constexpr std::uint64_t kHeight = 200 * kGranule;

std::vector<Step> random_steps(Random& random, std::uint64_t count, std::uint64_t kinds) {
  std::vector<Step> steps(count);
  for (Step& step : steps) {
    step.size = 1 + below(random, kinds) * 1500;
    step.alignment_log2 = static_cast<std::uint8_t>(4 + below(random, 12));
    if (below(random, 10) != 0) {
      const Granules unit = std::max(1_g, granules_in(1ULL << step.alignment_log2));
      const Granules room = granules_in(kHeight) - granules_of(step.size);
      step.offset = bytes_of(below(random, room / unit + 1) * unit);
    }
  }
  return steps;
}

class World {
 public:
  World(const std::vector<Step>& steps, std::uint64_t seed) : random(seed), steps_(steps) {
    placer.start(&own_.schedule, &own_.index, Cursor());
  }

  void call(std::uint64_t size, std::uint64_t alignment) {
    const testing::Placement placement = testing::place(placer, size, alignment, bare_.map);
    const std::uint32_t after = placer.position().count();
    const Step& step = steps_[(after + steps_.size() - 1) % steps_.size()];
    const Granules first = granules_in(step.offset);
    switch (placement.miss) {
      case Miss::kNone:
        REQUIRE(step.size == size);
        REQUIRE(placement.offset == step.offset);
        REQUIRE(is_free(first, granules_of(size)));
        REQUIRE(step.offset % std::min(alignment, kGranule) == 0);
        REQUIRE((alignment <= kGranule || step.offset % alignment == 0));
        alive[first] = granules_of(size);
        break;
      case Miss::kOccupied:
        REQUIRE(step.size == size);
        REQUIRE_FALSE(is_free(first, granules_of(size)));
        break;
      case Miss::kLeftOut:
        REQUIRE(step.size == size);
        REQUIRE(step.offset == kUnplanned);
        break;
      case Miss::kAlignment:
        REQUIRE(step.size == size);
        REQUIRE(alignment > kGranule);
        REQUIRE(step.offset % alignment != 0);
        break;
      case Miss::kSize:
      case Miss::kOrder:
        REQUIRE(steps_[after].size != size);  // the place has not moved
        break;
    }
  }
  void free_one() {
    if (!alive.empty()) {
      auto block = alive.lower_bound(Granules{below(random, kHeight / kGranule)});
      block = block == alive.end() ? alive.begin() : block;
      REQUIRE(bare_.map.free(block->first) == block->second);
      alive.erase(block);
    }
  }

  Random random;
  Placer placer;
  std::map<Granules, Granules> alive;  // first -> count

 private:
  [[nodiscard]] bool is_free(Granules first, Granules count) const {
    const auto next = alive.lower_bound(first);
    if (next != alive.end() && next->first < first + count) {
      return false;
    }
    return next == alive.begin() || std::prev(next)->first + std::prev(next)->second <= first;
  }

  const std::vector<Step>& steps_;
  OwnSchedule own_{steps_};
  testing::BareMap bare_{granules_in(kHeight) + 1_g};
};

TEST_CASE("placer: never gives out a byte twice, whatever the plan and the calls",
          "[engine][property]") {
  for (const std::uint64_t seed : testing::seeds(12)) {
    INFO("seed " << seed);
    Random random(seed);
    const std::uint64_t wild = below(random, 3) * 10;  // percent of calls that follow no plan
    const std::vector<Step> steps =
        random_steps(random, 1 + below(random, 60), 1 + below(random, 20));
    World world(steps, seed);
    std::uint32_t step = 0;
    for (int i = 0; i < 5000; ++i) {
      const bool follow = below(random, 100) >= wild;
      const std::uint64_t size =
          follow ? steps[step++ % steps.size()].size : 1 + below(random, 25) * 1500;
      world.call(size, 1ULL << (4 + below(random, 13)));
      while (below(random, 5) < 3 && !world.alive.empty()) {
        world.free_one();
      }
    }
  }
}

// With sizes that recur, a place is known by its context alone.
TEST_CASE("placer: finds back into plans whose sizes recur", "[engine][property]") {
  for (const std::uint64_t seed : testing::seeds(8)) {
    INFO("seed " << seed);
    Random random(seed);
    std::vector<std::uint64_t> plan(300);
    for (std::uint64_t& size : plan) {
      size = 4096 * (1 + below(random, 24));
    }
    const OwnSchedule own(testing::stacked(plan));
    testing::BareMap bare(granules_in(own.schedule.height) + 1_g);
    Placer placer;
    placer.start(&own.schedule, &own.index, Cursor());
    std::uint64_t disturbed = 0;
    std::uint64_t missed = 0;
    std::uint32_t step = 0;
    for (int i = 0; i < 20'000; ++i) {
      std::uint64_t size = plan[step % plan.size()];
      const bool disturb = below(random, 100) == 0;
      if (disturb) {
        ++disturbed;
        switch (below(random, 3)) {
          case 0:
            size = plan[below(random, plan.size())];  // an extra call
            break;
          case 1:
            step += 1 + static_cast<std::uint32_t>(below(random, 12));  // missing ones
            size = plan[step++ % plan.size()];
            break;
          default:
            size = 99;  // another size in a step's place
            ++step;
        }
      } else {
        ++step;
      }
      const testing::Placement placement = testing::place(placer, size, 16, bare.map);
      if (placement.miss == Miss::kNone) {
        bare.map.free(granules_in(placement.offset));
      }
      const bool in_step =
          placement.miss == Miss::kNone && placer.position().count() == step % plan.size();
      missed += in_step || disturb ? 0U : 1U;
      REQUIRE_FALSE(placer.health().lost());
    }
    INFO(disturbed << " disturbances, " << missed << " calls out of step");
    CHECK(missed <= disturbed);
  }
}

}  // namespace
}  // namespace memo
