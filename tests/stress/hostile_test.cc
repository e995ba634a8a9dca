// The placer under schedules that no planner would make: random offsets, blocks over each other.
// Whatever the schedule says, a granted place overlaps no block that is alive.
#include <catch2/catch.hpp>
#include <cstring>
#include <map>
#include <random>
#include <thread>
#include <vector>

#include "src/base/units.h"
#include "tests/support/placements.h"

namespace memo {
namespace {

struct Hostile {
  static constexpr std::uint64_t kGranules = 256;
  explicit Hostile(std::uint32_t seed) : random(seed), memory(kGranules * kGranule) {
    state = static_cast<std::uint8_t*>(std::aligned_alloc(8, kGranules));
    std::memset(state, 0, kGranules);
    pages = PageMap(state, length.data());
    steps.resize(5 + random() % 40);
    for (Step& step : steps) {
      const std::uint64_t granules = 1 + random() % 60;
      step.size = granules * kGranule - random() % kGranule;
      step.offset = random() % (kGranules - granules + 1) * kGranule;
      step.alignment_log2 = static_cast<std::uint8_t>(random() % 40);
    }
    schedule = {steps.data(), static_cast<std::uint32_t>(steps.size()), kGranules * kGranule, 0, 0};
    index_memory.resize(ContextIndex::words(schedule.count));
    index.build(schedule, index_memory.data());
    placer.start(&schedule, &index,
                 Cursor(StepIndex{static_cast<std::uint32_t>(random() % steps.size())}));
  }
  Hostile(const Hostile&) = delete;
  Hostile& operator=(const Hostile&) = delete;
  ~Hostile() { std::free(state); }

  std::mt19937 random;
  std::vector<unsigned char> memory;
  std::uint8_t* state = nullptr;
  std::vector<std::uint32_t> length = std::vector<std::uint32_t>(kGranules);
  PageMap pages;
  std::vector<Step> steps;
  Schedule schedule;
  std::vector<std::uint32_t> index_memory;
  ContextIndex index;
  Placer placer;
};

struct Live {
  std::uint64_t size;
  unsigned char mark;
};

bool holds(const Hostile& hostile, std::uint64_t offset, const Live& block) {
  for (std::uint64_t i = 0; i < block.size; ++i) {
    if (hostile.memory[offset + i] != block.mark) {
      return false;
    }
  }
  return true;
}

}  // namespace

TEST_CASE("placer: no schedule makes two live blocks share a page", "[engine][hostile]") {
  const auto seed = static_cast<std::uint32_t>(Catch::rngSeed());
  CAPTURE(seed);
  std::uint64_t granted = 0;
  std::uint64_t occupied = 0;
  for (std::uint32_t round = 0; round < 60; ++round) {
    Hostile hostile(seed + round);
    std::map<std::uint64_t, Live> live;
    unsigned char mark = 0;
    for (int call = 0; call < 400; ++call) {
      // Mostly the schedule's sizes in their order, now and then another.
      const std::uint32_t at = hostile.random() % 16 == 0
                                   ? static_cast<std::uint32_t>(hostile.random())
                                   : hostile.placer.position().count();
      const std::uint64_t size = hostile.steps[at % hostile.steps.size()].size;
      const std::uint64_t alignment = std::uint64_t{1} << (hostile.random() % 22);
      const auto place = testing::place(hostile.placer, size, alignment, hostile.pages);
      occupied += place.miss == Miss::kOccupied;
      if (place.miss == Miss::kNone) {
        ++granted;
        REQUIRE(place.offset % std::min(alignment, kGranule) == 0);
        REQUIRE((alignment <= kGranule || place.offset % alignment == 0));
        REQUIRE(place.offset + size <= hostile.memory.size());
        REQUIRE(live.count(place.offset) == 0);
        std::memset(hostile.memory.data() + place.offset, ++mark, size);
        live[place.offset] = {size, mark};
      }
      while (!live.empty() && hostile.random() % 3 == 0) {
        auto chosen = live.begin();
        std::advance(chosen, static_cast<long>(hostile.random() % live.size()));
        REQUIRE(holds(hostile, chosen->first, chosen->second));
        REQUIRE(hostile.pages.free(granules_in(chosen->first)) == granules_of(chosen->second.size));
        live.erase(chosen);
      }
    }
    for (const auto& [offset, block] : live) {
      REQUIRE(holds(hostile, offset, block));
    }
  }
  REQUIRE(granted > 1000);
  REQUIRE(occupied > 1000);
}

TEST_CASE("page map: a block is released once, whatever is freed", "[serve][hostile]") {
  Hostile hostile(7);
  REQUIRE(hostile.pages.claim(Granules{10}, Granules{5}).granted);
  REQUIRE_FALSE(hostile.pages.claim(Granules{14}, Granules{2}).granted);
  REQUIRE_FALSE(hostile.pages.claim(Granules{8}, Granules{3}).granted);
  REQUIRE(hostile.pages.free(Granules{11}) == Granules{0});
  REQUIRE(hostile.pages.free(Granules{9}) == Granules{0});
  Granules released[4];
  std::vector<std::thread> threads;
  for (auto& count : released) {
    threads.emplace_back([&] { count = hostile.pages.free(Granules{10}); });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  REQUIRE(released[0] + released[1] + released[2] + released[3] == Granules{5});
  REQUIRE(hostile.pages.claim(Granules{8}, Granules{7}).granted);
}

}  // namespace memo
