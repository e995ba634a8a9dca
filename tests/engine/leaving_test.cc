// Threads that come and go at once: a lane passes from who leaves to who comes.
#include <atomic>
#include <catch2/catch.hpp>
#include <cstdint>
#include <thread>
#include <vector>

#include "tests/support/engines.h"

namespace memo {
namespace {

using testing::Driver;
using testing::in_thread;
using testing::OwnEngine;
using testing::Program;
using testing::program_of;

// The thread sanitizer sees where both are at work on it.
TEST_CASE("leaving: who comes has a lane when who left is done with it", "[engine]") {
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

}  // namespace
}  // namespace memo
