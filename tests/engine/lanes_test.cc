// How many lanes and slabs there are, how large their spaces, and how lanes come to threads and go.
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <catch2/catch.hpp>
#include <cstdint>
#include <thread>
#include <vector>

#include "src/base/os.h"
#include "src/base/tuning.h"
#include "src/engine/engine.h"
#include "tests/support/engines.h"
#include "tests/support/skip.h"

namespace memo {
namespace {

using testing::Driver;
using testing::in_thread;
using testing::OwnEngine;
using testing::Program;
using testing::program_of;

// All of the address space but so much; false where that is not possible.
bool keep_addresses(std::uint64_t bytes) {
  const auto take = [](std::uint64_t size) {
    return mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  };
  void* kept = take(bytes);
  if (kept == MAP_FAILED) {
    return false;
  }
  for (std::uint64_t size = 1ULL << 46; size >= 1ULL << 31; size /= 2) {
    while (take(size) != MAP_FAILED) {
    }
  }
  return munmap(kept, bytes) == 0;
}

TEST_CASE("lanes: where addresses are scarce there are fewer slabs, and then smaller spaces",
          "[engine]") {
  const std::uint64_t space =
      std::min(std::bit_ceil(os::physical_memory()), std::uint64_t{128} << 30);
  const std::uint32_t slabs = tuning::kSlabsPerProcessor * os::processors();
  if (slabs / 2 < tuning::kSlabsPerProcessor || slabs / 2 == slabs - 1) {
    testing::skip("too few processors to have fewer slabs");
    return;
  }
  struct Scarce {
    std::uint64_t spaces;  // for which there are addresses
    std::uint32_t slabs;
    std::uint64_t smaller;  // times
  };
  std::uint32_t fewest = slabs;
  while (fewest > tuning::kSlabsPerProcessor) {
    fewest /= 2;
  }
  // Some are for the pool's arenas, and for tables.
  const std::uint64_t more = Pool::useful_parts() + 1;
  const Scarce all[] = {
      {slabs + more, slabs, 1}, {slabs / 2 + more, slabs / 2, 1}, {fewest + more - 2, fewest, 2}};
  for (const Scarce& given : all) {
    INFO("addresses for " << given.spaces);
    CHECK(testing::status_of_child([&] {
            if (!keep_addresses(given.spaces * space + space / 2)) {
              return 1;
            }
            OwnEngine own;
            Driver driver(own.engine);
            driver.iterate({{65'536, 1}});
            return driver.passed_on == 0 &&
                           own.engine.lanes.shared().slabs.count() == given.slabs &&
                           own.engine.lanes.region.at(0).bytes() * given.smaller == space
                       ? 0
                       : 2;
          }) == 0);
  }
}

// The thread sanitizer sees where both are at work on it.
TEST_CASE("lanes: who comes has a lane when who left is done with it", "[engine]") {
  OwnEngine own;
  const Program program = program_of(5);
  std::atomic<std::uint64_t> wrong{0};
  std::vector<std::thread> starters;
  starters.reserve(3);
  for (int starter = 0; starter < 3; ++starter) {
    starters.emplace_back([&] {
      for (std::uint32_t turn = 0; turn < 60; ++turn) {
        in_thread([&] {
          Driver driver(own.engine);
          driver.iterate(program, 2 + turn % 4);
          driver.free_due(UINT64_MAX);
          wrong += driver.wrong;
          own.engine.thread_ended();
        });
      }
    });
  }
  for (std::thread& starter : starters) {
    starter.join();
  }
  CHECK(wrong == 0);
  CHECK(own.engine.lanes.valid());
  CHECK(own.engine.lanes.count() <= 8);  // three at a time, and now and then one that is being left
}

// Stands for a handler that ends its thread in the middle of a call.
Engine* ending = nullptr;
void end_thread() {
  if (ending != nullptr) {
    ending->thread_ended();
    ending = nullptr;
  }
}

TEST_CASE("lanes: a call in whose middle its thread ends leaves the lane to the next", "[engine]") {
  OwnEngine own({}, {.trim_next = end_thread});
  const Program program = testing::untried_program();
  in_thread([&] {
    ending = &own.engine;
    Driver driver(own.engine);
    driver.iterate(program, 12);  // the slab is taken, and the thread ended
    driver.free_due(UINT64_MAX);
    CHECK(ending == nullptr);
    CHECK(driver.wrong == 0);
  });
  in_thread([&] {
    Driver driver(own.engine, 1ULL << 40);
    testing::iterations_until_serving(driver, program, own.engine.lanes.at(0));
    driver.iterate(program, 3);
    driver.free_due(UINT64_MAX);
    CHECK(own.engine.lanes.count() == 1);
    CHECK(own.engine.lanes.at(0).phase() == Phase::kServing);
    CHECK(driver.wrong == 0);
    own.engine.thread_ended();
  });
}

TEST_CASE("lanes: a thread that ends while another is at its lane leaves the plan to the next",
          "[engine]") {
  OwnEngine own;
  const Program program = testing::untried_program();
  const auto users = [&] {
    std::uint32_t sum = 0;
    own.engine.lanes.shared().store.for_each(
        [&](const StoredPlan& plan, std::uint32_t) { sum += plan.users; });
    return sum;
  };
  in_thread([&] {
    Driver driver(own.engine);
    driver.iterate({{65'536, 1}});  // the lane exists
    testing::iterations_until_serving(driver, program, own.engine.lanes.at(0));
    driver.free_due(UINT64_MAX);
    std::atomic<bool> there{false};
    std::atomic<bool> gone{false};
    std::thread other([&] {
      own.engine.lanes.at(0).with_slab([&](Slab&) {
        there = true;
        while (!gone && os::rest()) {
        }
      });
    });
    while (!there && os::rest()) {
    }
    own.engine.thread_ended();
    // What the ended thread has left is nobody's in a child.
    int child = -1;
    std::thread([&] {
      own.engine.before_fork();
      child = testing::status_of_child([&] {
        own.engine.forks.after_in_child();
        Driver taker(own.engine, 1ULL << 50);
        taker.iterate({{65'536, 1}});  // takes the lane
        testing::iterations_until_serving(taker, program, own.engine.lanes.at(0));
        taker.free_due(UINT64_MAX);
        return taker.wrong == 0 && users() == 1 ? 0 : 1;
      });
      own.engine.forks.after_in_parent();
    }).join();
    CHECK(child == 0);
    gone = true;
    other.join();
    CHECK(users() == 1);
  });
  in_thread([&] {
    Driver driver(own.engine, 1ULL << 40);
    driver.iterate({{65'536, 1}});
    CHECK(own.engine.lanes.count() == 1);
    CHECK(users() == 0);
    testing::iterations_until_serving(driver, program, own.engine.lanes.at(0));
    CHECK(users() == 1);
    driver.free_due(UINT64_MAX);
    CHECK(driver.wrong == 0);
    own.engine.thread_ended();
  });
}

}  // namespace
}  // namespace memo
