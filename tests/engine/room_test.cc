// What others do to a lane whose memory is wanted elsewhere.
#include <atomic>
#include <catch2/catch.hpp>
#include <thread>

#include "src/base/os.h"
#include "src/base/tuning.h"
#include "src/engine/engine.h"
#include "tests/support/engines.h"

namespace memo {
namespace {

using testing::Block;
using testing::Driver;
using testing::OwnEngine;
using testing::Program;
using testing::program_of;

TEST_CASE("threads: a call waits while another thread gives memory back in its lane", "[engine]") {
  OwnEngine own;
  testing::drive(own, [](Engine& engine, Driver& driver, Lane& lane) {
    const Program program = program_of(1);
    testing::iterations_until_serving(driver, program, lane);
    std::atomic<bool> entered{false};
    std::thread other([&] {
      lane.with_slab([&](Slab&) {
        entered = true;
        testing::rest_for(Nanos{5'000'000});
      });
    });
    while (!entered) {
      os::rest();
    }
    driver.iterate(program);
    other.join();
    CHECK(engine.lanes.passed_on.fallback_busy.get() == 0);
    CHECK(driver.passed_on == 0);
    CHECK(lane.phase() == Phase::kServing);
  });
}

TEST_CASE("threads: who is in the middle of an iteration keeps its slab where room is made",
          "[engine]") {
  OwnEngine own;
  testing::drive(own, [](Engine& engine, Driver& driver, Lane& lane) {
    const Program program = program_of(1);
    testing::iterations_until_serving(driver, program, lane);
    const Block kept = driver.take(program[0].size);
    const std::uint64_t height = lane.slab_height();
    REQUIRE(height != 0);
    REQUIRE_FALSE(is_empty(lane.slab().space()));
    testing::rest_for(2 * tuning::kIdle);
    const std::uint32_t another = engine.lanes.possible();
    give_back_idle(engine.lanes.shared(), another);
    CHECK(lane.slab_height() == height);
    CHECK(kept.whole());
    driver.release(kept);
    driver.free_due(UINT64_MAX);
    testing::rest_for(2 * tuning::kIdle);
    give_back_idle(engine.lanes.shared(), another);
    CHECK(lane.slab_height() == 0);
  });
}

TEST_CASE("engine: what was given back in vain is tried again once blocks were freed", "[engine]") {
  OwnEngine own;
  testing::drive(own, [](Engine& engine, Driver& driver, Lane&) {
    driver.iterate(program_of(1));
    driver.free_due(UINT64_MAX);
    constexpr std::uint64_t kBytes = 16ULL << 20;
    const Block low = driver.take(kBytes);
    const Block high = driver.take(kBytes);
    REQUIRE(high.start > low.start);
    driver.release(low);
    REQUIRE(engine.give_back.relieve(kBytes));
    const std::uint64_t committed = engine.lanes.committed_bytes();
    CHECK(committed > 2 * kBytes);  // the high block keeps the low one's
    CHECK_FALSE(engine.give_back.relieve(kBytes));
    CHECK(engine.give_back.relieve(kBytes));
    driver.release(high);
    CHECK(engine.give_back.relieve(kBytes));
    CHECK(engine.lanes.committed_bytes() + kBytes <= committed);
  });
}

}  // namespace
}  // namespace memo
