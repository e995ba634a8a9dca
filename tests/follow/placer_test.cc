// The placer on hand-made schedules.
#include "src/follow/placer.h"

#include <catch2/catch.hpp>
#include <vector>

#include "tests/support/placements.h"
#include "tests/support/schedules.h"
#include "tests/support/spaces.h"

namespace memo {
namespace {

using testing::OwnSchedule;
using testing::sizes;
using testing::stacked;

// Serves a stream whose blocks are freed at once, so that only the place in the plan matters.
struct Stream {
  std::vector<std::uint64_t> plan;
  OwnSchedule own{stacked(plan)};
  testing::BareMap bare{granules_in(own.schedule.height) + 8_g};
  Placer placer = started();

  Placer started() const {
    Placer fresh;
    fresh.start(&own.schedule, &own.index, Cursor());
    return fresh;
  }
  Miss call(std::uint64_t size) {
    const testing::Placement placement = testing::place(placer, size, 16, bare.map);
    if (placement.miss == Miss::kNone) {
      REQUIRE(bare.map.free(granules_in(placement.offset)) == granules_of(size));
    }
    return placement.miss;
  }
  // Calls until one is placed at its own step and so are the next `sure` calls; the stream goes on
  // at `step`.
  std::uint32_t misses_until_in_step(std::uint32_t step, std::uint32_t sure = 5) {
    std::uint32_t misses = 0;
    for (std::uint32_t run = 0, calls = 0; run < sure; ++calls, ++step) {
      REQUIRE(calls < 2 * plan.size());
      const bool good =
          call(plan[step % plan.size()]) == Miss::kNone &&
          placer.position() == StepIndex{(step + 1) % static_cast<std::uint32_t>(plan.size())};
      run = good ? run + 1 : 0;
      misses += good ? 0 : 1;
    }
    return misses;
  }
};

TEST_CASE("placer: places each call where the plan says", "[follow]") {
  Stream stream{sizes(50)};
  for (std::uint32_t call = 0; call < 150; ++call) {
    const std::uint32_t step = call % 50;
    const testing::Placement placement =
        testing::place(stream.placer, stream.plan[step], 64, stream.bare.map);
    REQUIRE(placement.miss == Miss::kNone);
    REQUIRE(placement.offset == stream.own.schedule.steps[step].offset);
    REQUIRE(placement.dirty == (call >= 50));
    REQUIRE(placement.wrapped == (step == 49));
    REQUIRE(stream.bare.map.free(granules_in(placement.offset)) != 0_g);
  }
  CHECK_FALSE(stream.placer.health().lost());
}

TEST_CASE("placer: an extra, a missing or a changed call costs a few calls at most", "[follow]") {
  const std::uint32_t at = GENERATE(0U, 1U, 25U, 48U, 49U);
  INFO("step " << at);
  Stream stream{sizes(50)};
  stream.misses_until_in_step(0, 50 + at);
  SECTION("an extra call") {
    CHECK(stream.call(123'456) == Miss::kSize);
    CHECK(stream.misses_until_in_step(at) == 0);
  }
  SECTION("two extra calls") {
    CHECK(stream.call(123'456) == Miss::kSize);
    CHECK(stream.call(123'456) == Miss::kOrder);
    CHECK(stream.misses_until_in_step(at) == 0);
  }
  SECTION("a missing call") {
    CHECK(stream.misses_until_in_step(at + 1) == 0);
  }
  SECTION("eight missing calls") {
    CHECK(stream.misses_until_in_step(at + 8) == 0);
  }
  SECTION("a dozen missing calls") {
    CHECK(stream.misses_until_in_step(at + 12) != 0);
  }
  SECTION("many missing calls") {
    CHECK(stream.misses_until_in_step(at + 20) <= kContext - 1);
  }
  SECTION("a changed call") {
    CHECK(stream.call(123'456) == Miss::kSize);
    CHECK(stream.misses_until_in_step(at + 1) == 0);
  }
  SECTION("a call of the iteration's far end in between") {
    stream.call(stream.plan[(at + 30) % 50]);
    CHECK(stream.misses_until_in_step(at) <= kContext);
  }
  SECTION("calls of near steps in between") {
    for (const std::uint32_t ahead : {4U, 4U, 7U, 12U, 6U, 6U, 8U}) {
      stream.call(stream.plan[(at + ahead) % 50]);
    }
    CHECK(stream.misses_until_in_step(at) == 0);
  }
  CHECK_FALSE(stream.placer.health().lost());
}

TEST_CASE("placer: a block that stays keeps its place, until it is freed", "[follow]") {
  Stream stream{sizes(20)};
  const testing::Placement kept =
      testing::place(stream.placer, stream.plan[0], 16, stream.bare.map);
  REQUIRE(kept.miss == Miss::kNone);
  stream.misses_until_in_step(1, 19);
  CHECK(stream.call(stream.plan[0]) == Miss::kOccupied);
  CHECK(stream.placer.position() == 1_step);
  stream.misses_until_in_step(1, 19);
  REQUIRE(stream.bare.map.free(granules_in(kept.offset)) != 0_g);
  CHECK(stream.call(stream.plan[0]) == Miss::kNone);
  CHECK_FALSE(stream.placer.health().lost());
}

TEST_CASE("placer: unplanned steps and stricter alignments go elsewhere, in step", "[follow]") {
  std::vector<Step> steps = stacked(sizes(4));
  steps[1].offset = kUnplanned;
  steps[2].alignment_log2 = 13;
  steps[2].offset = 8192 * 50;
  steps[3].offset = 8192 * 90 + 4096;
  const OwnSchedule own(steps);
  testing::BareMap bare(1000_g);
  Placer placer;
  placer.start(&own.schedule, &own.index, Cursor());
  CHECK(testing::place(placer, steps[0].size, 4096, bare.map).miss == Miss::kNone);
  CHECK(testing::place(placer, steps[1].size, 16, bare.map).miss == Miss::kLeftOut);
  CHECK(testing::place(placer, steps[2].size, 8192, bare.map).miss == Miss::kNone);
  CHECK(testing::place(placer, steps[3].size, 8192, bare.map).miss == Miss::kAlignment);
  CHECK(placer.position() == 0_step);
}

TEST_CASE("placer: a shorter plan is followed from its own first step", "[follow]") {
  Stream stream{sizes(400)};
  for (std::uint32_t step = 0; step < 399; ++step) {
    REQUIRE(stream.call(stream.plan[step]) == Miss::kNone);
  }
  stream.plan = sizes(20);
  stream.own = OwnSchedule{stacked(stream.plan)};
  stream.placer.start(&stream.own.schedule, &stream.own.index, Cursor());
  for (const std::uint64_t size : stream.plan) {
    REQUIRE(stream.placer.position() < stream.own.schedule.end());
    REQUIRE(stream.call(size) == Miss::kNone);
  }
}

TEST_CASE("placer: is lost when the program changes, and not before", "[follow]") {
  Stream stream{sizes(40)};
  stream.misses_until_in_step(0, 80);
  std::uint32_t calls = 0;
  for (; !stream.placer.health().lost() && calls < 1000; ++calls) {
    stream.call(500'000 + 1000 * (calls % 40));
  }
  CHECK(calls >= 20);
  CHECK(calls <= 80);
}

TEST_CASE("placer: one small wrong call in three is no change of program", "[follow]") {
  Stream stream{sizes(40)};
  for (std::uint32_t call = 0; call < 2000; ++call) {
    stream.call(call % 3 == 2 ? 4'096 : stream.plan[(call / 3 * 2 + call % 3) % 40]);
    REQUIRE_FALSE(stream.placer.health().lost());
  }
}

TEST_CASE("placer: a plan that misses many bytes for long is unfit", "[follow]") {
  Stream stream{sizes(40)};
  std::uint32_t call = 0;
  for (; call < 2000 && !stream.placer.health().lost(); ++call) {
    stream.call(call % 41 == 40 ? 10'000'000 : stream.plan[call % 41]);
  }
  CHECK(stream.placer.health().lost());
  CHECK(stream.placer.health().unfit());
  CHECK(call >= 320);
}

TEST_CASE("placer: a long detour is a change whatever the iteration's length", "[follow]") {
  Stream stream{sizes(5000)};
  stream.misses_until_in_step(0, 100);
  std::uint32_t calls = 0;
  for (; !stream.placer.health().lost() && calls < 5000; ++calls) {
    stream.call(64);
  }
  CHECK(calls <= 256);
}

TEST_CASE("placer: a schedule of one step", "[follow]") {
  Stream stream{{70'000}};
  for (int i = 0; i < 10; ++i) {
    CHECK(stream.call(70'000) == Miss::kNone);
  }
  CHECK(stream.call(80'000) == Miss::kSize);
  CHECK(stream.call(70'000) == Miss::kNone);
}

}  // namespace
}  // namespace memo
