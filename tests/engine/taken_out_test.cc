// Addresses of the region that others have: given to nobody, and left as they are.
#include <sys/mman.h>

#include <catch2/catch.hpp>

#include "src/base/os.h"
#include "src/engine/engine.h"
#include "tests/support/engines.h"
#include "tests/support/skip.h"

namespace memo {
namespace {

using testing::Block;
using testing::drive;
using testing::Driver;
using testing::in_thread;
using testing::OwnEngine;
using testing::Program;
using testing::program_of;

// Pages that a program has mapped over free ones of the engine's.
class Mapped {
 public:
  Mapped(Engine& engine, char* start, std::uint64_t bytes) : start_(start), bytes_(bytes) {
    engine.note_replaced(start, bytes);
    REQUIRE(mmap(start, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
                 0) == start);
    std::memset(start, kByte, bytes);
  }
  [[nodiscard]] bool as_it_was() const {
    return start_[0] == kByte && std::memcmp(start_, start_ + 1, bytes_ - 1) == 0;
  }

 private:
  static constexpr char kByte = 0x5a;
  char* start_;
  std::uint64_t bytes_;
};

TEST_CASE("engine: a plan gives no place that others have mapped something at", "[engine]") {
  drive([](Engine& engine, Driver& driver, const Lane& lane) {
    const Program program = program_of(12);
    testing::iterations_until_serving(driver, program, lane);
    driver.iterate(program, 2);
    driver.free_due(UINT64_MAX);
    char* const start = lane.slab().space().base();
    const Mapped first(engine, start, kGranule);
    const Mapped second(engine, start + 16 * kGranule, 3 * kGranule);
    driver.iterate(program, 30);
    driver.free_due(UINT64_MAX);
    CHECK(first.as_it_was());
    CHECK(second.as_it_was());
    CHECK(lane.counters.fallback_occupied.get() != 0);  // as of blocks that stay
    engine.give_back.all();
    driver.iterate(program, 3);
    CHECK(first.as_it_was());
    CHECK(second.as_it_was());
    CHECK(engine.lanes.valid());
  });
}

TEST_CASE("engine: what others have mapped in a slab that nobody holds stays theirs", "[engine]") {
  OwnEngine own;
  const Program program = program_of(1);
  char* start = nullptr;
  const auto work = [&](std::uint64_t id) {
    in_thread([&] {
      Driver driver(own.engine, id << 40U);
      driver.iterate(program, 10);
      driver.free_due(UINT64_MAX);
      CHECK(driver.wrong == 0);
      start = my_lane()->slab().space().base();
      own.engine.thread_ended();
    });
  };
  work(1);
  const Mapped mapped(own.engine, start, 4 * kGranule);
  work(2);
  CHECK(mapped.as_it_was());
  CHECK(own.engine.lanes.valid());
}

TEST_CASE("engine: a block that others may have come into is never freed", "[engine]") {
  drive([](Engine& engine, Driver& driver, const Lane&) {
    const Block block = driver.take(kMiB / 2);
    const Block other = driver.take(kMiB / 2);
    REQUIRE((block.owned && other.owned));
    char* const theirs = block.start + kMiB / 16;
    engine.note_lost(theirs, kGranule);
    REQUIRE(mmap(theirs, kGranule, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
            theirs);
    CHECK(engine.free(block.start));
    CHECK(engine.size(block.start) >= kMiB / 2);
    for (int i = 0; i < 40; ++i) {
      driver.release(driver.take(kMiB / 2));
    }
    driver.release(other);
    CHECK(engine.lanes.valid());
  });
}

TEST_CASE("engine: what is far inside of a block counts as the block's", "[engine]") {
  drive([](Engine& engine, Driver& driver, const Lane& lane) {
    // Larger than what one word or page of states tells of.
    const std::uint64_t bytes = 5ULL << 30U;
    driver.iterate(program_of(1), 1);
    char* const start = static_cast<char*>(engine.allocate({bytes, 64, Op::k_malloc, false}));
    if (start == nullptr) {
      return testing::skip("so much address space");
    }
    Space& space = *engine.lanes.space_of(start);
    const Granules first = space.granule_of(start);
    CHECK(space.pages.block_at(first + granules_in(bytes - kGranule)).first == first);
    CHECK_FALSE(space.pages.altered(first));
    engine.note_altered(start + bytes - 2 * kGranule, kGranule);
    CHECK(space.pages.altered(first));
    CHECK(engine.free(start));
    CHECK(lane.counters.large_allocations.get() != 0);
  });
}

}  // namespace
}  // namespace memo
