// Lanes and the threads that own them: refused, had later, left in the middle of a call.
#include <atomic>
#include <catch2/catch.hpp>
#include <thread>
#include <vector>

#include "src/base/os.h"
#include "src/base/tuning.h"
#include "src/engine/engine.h"
#include "tests/support/engines.h"

namespace memo {
namespace {

using testing::Block;
using testing::Driver;
using testing::in_thread;
using testing::OwnEngine;
using testing::Program;
using testing::program_of;

TEST_CASE("threads: who was refused a lane has one when others have ended", "[engine]") {
  OwnEngine own;
  std::atomic<std::uint32_t> arrived{0};
  std::atomic<bool> over{false};
  std::vector<std::thread> threads;
  for (std::uint32_t i = 0; i < tuning::kMaxLanes; ++i) {
    threads.emplace_back([&] {
      for (bool owned = false; !owned; os::rest()) {  // the lanes may be wanted by too many at once
        void* block = own.engine.allocate({65'536, 16, Op::k_malloc, false});
        owned = block != nullptr && own.engine.free(block);
      }
      ++arrived;
      while (!over) {
        os::rest();
      }
      own.engine.thread_ended();
    });
  }
  while (arrived < tuning::kMaxLanes) {
    os::rest();
  }
  in_thread([&] {
    Driver driver(own.engine);
    driver.iterate(program_of(1), 15);
    CHECK(own.engine.lanes.count() == tuning::kMaxLanes);
    const Block foreign = driver.take(65'536);
    CHECK_FALSE(foreign.owned);
    driver.release(foreign);
    over = true;
    for (std::thread& thread : threads) {
      thread.join();
    }
    // After so many refusals it asks again every 256 calls.
    driver.iterate({{65'536, 1}}, 100);
    const Block early = driver.take(65'536);
    CHECK_FALSE(early.owned);
    driver.release(early);
    driver.iterate({{65'536, 1}}, 150);
    const Block block = driver.take(65'536);
    CHECK(block.owned);
    driver.release(block);
    driver.iterate(program_of(1), 12);
    driver.free_due(UINT64_MAX);
    CHECK(own.engine.lanes.at(0).phase() == Phase::kServing);
    CHECK(driver.wrong == 0);
    own.engine.thread_ended();
  });
}

// Stands for a handler that ends its thread in the middle of a call.
Engine* ending = nullptr;
void end_thread() {
  if (ending != nullptr) {
    ending->thread_ended();
    ending = nullptr;
  }
}

TEST_CASE("threads: a call in whose middle its thread ends leaves the lane to the next",
          "[engine]") {
  OwnEngine own({}, {.trim_next = end_thread});
  const Program program = program_of(4);
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

}  // namespace
}  // namespace memo
