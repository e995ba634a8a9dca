// How much an arena may keep.
#include "src/serve/held_memory.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <thread>

#include "tests/support/units.h"

namespace memo {
namespace {

TEST_CASE("held memory: what is free is never more than the peak", "[serve]") {
  HeldMemory held;
  held.allow_slack(1);
  held.take(100_g, 0_g);
  held.free(100_g, 100_g);
  held.take(100_g, 0_g);
  CHECK(held.excess() == 0_g);  // slack is all that comes and goes
  held.free(100_g, 100_g);
  CHECK(held.excess() == 100_g);
}

TEST_CASE("held memory: a free beside an allocation makes no peak", "[serve]") {
  HeldMemory held;
  std::atomic<bool> stop{false};
  std::thread sparse([&] {
    while (!stop) {
      held.take(1000_g, 0_g, 990_g);
      held.free(1000_g, 0_g, 990_g);
    }
  });
  for (int i = 0; i < 3'000'000; ++i) {
    held.take(10_g, 0_g);
    held.free(10_g, 0_g);
  }
  stop = true;
  sparse.join();
  CHECK(held.peak() <= 20_g);
  CHECK(held.live() == 0_g);
}

TEST_CASE("held memory: the slack follows the least of two windows, as the peak does", "[serve]") {
  HeldMemory held;
  held.allow_slack(8);
  held.take(800_g, 0_g);
  held.free(800_g, 800_g);
  held.take(800_g, 0_g);
  CHECK(held.excess() == 700_g);
  CHECK(held.age() == 700_g);
  CHECK(held.excess() == 700_g);
  CHECK(held.age() == 800_g);
}

TEST_CASE("held memory: what a loop has had since before its peak does not come and go",
          "[serve]") {
  const bool loop = GENERATE(true, false);
  HeldMemory held;
  held.allow_slack(8, loop);
  held.take(100_g, 0_g);
  held.free(100_g, 100_g);
  held.take(800_g, 100_g);
  for (int i = 0; i < 3; ++i) {
    held.take(80_g, 0_g);
    held.free(80_g, 80_g);
  }
  CHECK(held.live() == 800_g);
  CHECK(held.dirty() == 240_g);
  CHECK(held.excess() == (loop ? 150_g : 50_g));  // an eighth of 80, and of 880
}

TEST_CASE("held memory: a block that is carried elsewhere raises no peak", "[serve]") {
  HeldMemory held;
  held.take(100_g, 0_g);
  held.take(150_g, 0_g);  // the first one is carried here
  CHECK(held.raised());
  held.carried(100_g);
  held.free(100_g, 0_g);
  CHECK(held.peak_bytes() == bytes_of(150_g));
  // What was the peak before stays one.
  held.take(20_g, 0_g);
  held.free(20_g, 20_g);
  held.take(30_g, 20_g);
  held.carried(25_g);
  held.carried(25_g);  // once
  CHECK(held.peak_bytes() == bytes_of(170_g));
  // One that does not raise the peak takes nothing from it.
  held.free(30_g, 30_g);
  held.take(20_g, 20_g);
  CHECK_FALSE(held.raised());
  held.carried(5_g);
  CHECK(held.peak_bytes() == bytes_of(170_g));
}

TEST_CASE("held memory: a block that is carried elsewhere counts once in its window, too",
          "[serve]") {
  HeldMemory held;
  held.take(1000_g, 0_g);
  held.free(1000_g, 1000_g);
  held.age();
  held.age();
  held.take(500_g, 500_g);
  held.take(600_g, 500_g);
  held.carried(500_g);
  held.free(500_g, 0_g);
  CHECK(held.peak_bytes() == bytes_of(600_g));
  held.age();
  CHECK(held.peak_bytes() == bytes_of(600_g));
  // What was forgotten in between does not come back.
  held.take(700_g, 0_g);
  held.free(600_g, 0_g);
  held.forget();
  held.carried(10_g);
  CHECK(held.peak_bytes() == bytes_of(690_g));
}

}  // namespace
}  // namespace memo
