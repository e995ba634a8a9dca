#include "src/trace/recorder.h"

#include <sys/mman.h>

#include <catch2/catch.hpp>
#include <map>
#include <thread>
#include <vector>

#include "src/base/tuning.h"
#include "tests/support/process.h"
#include "tests/support/spaces.h"

namespace memo {
namespace {

using testing::Random;

constexpr std::uint64_t kSlots = 256;

std::uint64_t address_of(std::uint64_t slot) {
  return 0x7f0000000000ULL + slot * 4096;
}

struct Fixture {
  std::vector<std::uint64_t> words = std::vector<std::uint64_t>(kSlots);
  LiveTable table{words.data()};
  Recorder recorder;

  std::uint32_t take(std::uint64_t size, std::uint64_t slot) {
    Allocation allocation;
    allocation.size = size;
    const std::uint32_t index = recorder.note(allocation, 0);
    if (index != kNotRecorded) {
      recorder.bind(index, address_of(slot), table, Granules{slot});
    }
    return index;
  }
  void free(std::uint64_t slot, std::uint32_t lane = 0) {
    recorder.free(address_of(slot), table, Granules{slot}, lane);
  }
};

TEST_CASE_METHOD(Fixture, "recorder: a block dies at the step after the last one", "[trace]") {
  REQUIRE(recorder.prepare(16, false));
  CHECK(take(100, 1) == 0);
  CHECK(take(200, 2) == 1);
  free(1);
  CHECK(take(300, 1) == 2);  // the same address again
  free(1);
  free(2);
  const auto log = recorder.log();
  REQUIRE(log.size() == 3);
  CHECK(log[0].death == 2);
  CHECK(log[1].death == 3);
  CHECK(log[2].death == 3);
  CHECK(log[2].size == 300);
}

TEST_CASE_METHOD(Fixture, "recorder: a block that is cut is known, and dies as others", "[trace]") {
  REQUIRE(recorder.prepare(16, false));
  take(100, 1);
  take(200, 2);
  recorder.cut(address_of(1), table, Granules{1});
  recorder.cut(address_of(3), table, Granules{3});  // of no log
  free(1);
  take(300, 1);
  const auto log = recorder.log();
  CHECK(log[0].cut);
  CHECK(log[0].death == 2);
  CHECK_FALSE(log[1].cut);
  CHECK_FALSE(log[2].cut);  // the same address again
}

TEST_CASE_METHOD(Fixture, "recorder: unknown blocks and second frees change nothing", "[trace]") {
  REQUIRE(recorder.prepare(16, false));
  free(5);  // before anything was recorded
  take(100, 1);
  free(5);
  free(1);
  take(200, 2);
  free(1);
  CHECK(recorder.log()[0].death == 1);
  CHECK(recorder.log()[1].death == kAlive);
}

TEST_CASE_METHOD(Fixture, "recorder: full means not recorded, and the frees still count",
                 "[trace]") {
  REQUIRE(recorder.prepare(3, false));
  for (std::uint64_t slot = 0; slot < 3; ++slot) {
    CHECK_FALSE(recorder.full());
    CHECK(take(slot, slot) == slot);
  }
  CHECK(recorder.full());
  CHECK(take(9, 3) == kNotRecorded);
  CHECK(recorder.count() == 3);
  free(3);
  free(1);
  CHECK(recorder.log()[1].death == 3);
  CHECK(recorder.log()[0].death == kAlive);
}

TEST_CASE_METHOD(Fixture, "recorder: after a restart the blocks of before are strangers",
                 "[trace]") {
  REQUIRE(recorder.prepare(16, false));
  take(100, 1);
  take(200, 2);
  recorder.restart();
  CHECK(recorder.count() == 0);
  take(300, 3);
  take(400, 4);
  free(1);
  free(2);
  CHECK(recorder.log()[0].death == kAlive);
  CHECK(recorder.log()[1].death == kAlive);
  free(4);
  CHECK(recorder.log()[1].death == 2);
}

TEST_CASE_METHOD(Fixture, "recorder: a long log holds no memory after its restart", "[trace]") {
  REQUIRE(recorder.prepare(tuning::kMaxLog, false));
  const bool is_long = GENERATE(true, false);
  const std::uint32_t count = is_long ? tuning::kMaxLog : tuning::kMaxLog / 16;
  for (std::uint32_t i = 0; i < count; ++i) {
    take(64, i % kSlots);
  }
  const Allocation* const log = recorder.log().data();
  const std::uint64_t bytes = count * sizeof *log;
  recorder.restart();
  // A short one may be filled again at once.
  CHECK((testing::resident_bytes(log, bytes) == 0) == is_long);
  free(0);
  CHECK(take(128, 0) == 0);
  CHECK(recorder.log()[0].size == 128);
}

TEST_CASE_METHOD(Fixture, "recorder: frees find their generation when the ids wrap", "[trace]") {
  for (const std::uint64_t seed : testing::seeds(2)) {
    INFO("seed " << seed);
    Random random(seed);
    constexpr std::uint32_t kCount = 200000;  // three times the ids
    Recorder fresh;
    REQUIRE(fresh.prepare(kCount, false));
    std::map<std::uint64_t, std::uint32_t> alive;  // slot -> index
    std::vector<std::uint32_t> deaths(kCount, kAlive);
    for (std::uint32_t step = 0; step < kCount; ++step) {
      // A few slots live for long, so that blocks more than 2^16 allocations old are freed as well.
      std::uint64_t slot = testing::below(random, 64);
      if (testing::below(random, 2000) == 0) {
        slot = 64 + testing::below(random, kSlots - 64);
      }
      if (const auto old = alive.find(slot); old != alive.end()) {
        fresh.free(address_of(slot), table, Granules{slot}, 0);
        deaths[old->second] = step;
      }
      const std::uint32_t index = fresh.note({}, 0);
      REQUIRE(index == step);
      fresh.bind(index, address_of(slot), table, Granules{slot});
      alive[slot] = step;
    }
    std::uint32_t wrong = 0;
    for (std::uint32_t step = 0; step < kCount; ++step) {
      wrong += fresh.log()[step].death == deaths[step] ? 0U : 1U;
    }
    CHECK(wrong == 0);
    std::fill(words.begin(), words.end(), 0);
  }
}

TEST_CASE_METHOD(Fixture, "recorder: other threads enter deaths while the owner goes on",
                 "[trace]") {
  REQUIRE(recorder.prepare(4096, true));
  for (std::uint64_t slot = 0; slot < 200; ++slot) {
    take(slot, slot);
  }
  std::vector<std::thread> threads;
  for (std::uint32_t thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      for (std::uint64_t slot = 0; slot < 200; ++slot) {
        free(slot, 10 + thread);  // all four try each block
      }
    });
  }
  for (std::uint64_t i = 0; i < 1000; ++i) {
    take(1000 + i, 200 + i % 50);
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  std::map<std::uint64_t, int> died;
  for (std::uint32_t i = 0; i < 200; ++i) {
    REQUIRE(recorder.log()[i].death >= 200);
    REQUIRE(recorder.log()[i].death <= 1200);
    REQUIRE(recorder.stamps()[i].freeing_lane >= 10);
    REQUIRE(recorder.stamps()[i].died > recorder.stamps()[i].born);
    ++died[recorder.stamps()[i].died];
  }
  CHECK(died.size() == 200);  // each stamp was given once
  for (std::uint32_t i = 200; i < recorder.count(); ++i) {
    REQUIRE(recorder.log()[i].death == kAlive);
  }
}

TEST_CASE_METHOD(Fixture, "recorder: marks are kept with stamps only", "[trace]") {
  REQUIRE(recorder.prepare(8, false));
  recorder.mark();
  CHECK(recorder.marks().empty());
  Recorder stamped;
  REQUIRE(stamped.prepare(8, true));
  stamped.mark();
  stamped.note({}, 5);
  stamped.mark();
  REQUIRE(stamped.marks().size() == 2);
  CHECK(stamped.marks()[1].number == 1);
  CHECK(stamped.marks()[0].stamp < stamped.stamps()[0].born);
  CHECK(stamped.marks()[1].stamp > stamped.stamps()[0].born);
  CHECK(stamped.live()[0] == 5);
  for (int i = 0; i < 10000; ++i) {
    stamped.mark();
  }
  CHECK(stamped.marks().size() == 4096);
}

}  // namespace
}  // namespace memo
