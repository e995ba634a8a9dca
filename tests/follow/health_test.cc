// Whether a stream still is its plan's: streams on both sides of a bound.
#include "src/follow/placer.h"

#include <catch2/catch.hpp>

namespace memo {
namespace {

// What is known after windows of 32 calls of a plan of as many steps, in each of which so many small
// calls have missed.
Health after(std::uint32_t windows, std::uint32_t misses) {
  Health health;
  for (std::uint32_t call = 0; call < 32 * windows; ++call) {
    const bool matched = call % 32 >= misses;
    health.note(matched, matched ? 100'000 : 1, 32);
  }
  return health;
}

TEST_CASE("health: a program that misses three calls in eight is another one, one in four is none",
          "[follow]") {
  CHECK(after(40, 12).lost());
  CHECK_FALSE(after(40, 8).lost());
}

TEST_CASE("health: six poor iterations are borne, twelve are not", "[follow]") {
  CHECK_FALSE(after(6, 12).unfit());
  CHECK(after(12, 12).unfit());
}

TEST_CASE(
    "health: a plan most of whose bytes find older blocks in their places for some iterations is "
    "outlived",
    "[follow]") {
  const auto after_windows = [](std::uint32_t windows, std::uint32_t in_the_way) {
    Health health;
    for (std::uint32_t call = 0; call < 32 * windows; ++call) {
      health.note(true, 100'000, 32);
      if (call % 32 < in_the_way) {
        health.note_in_the_way(100'000);
      }
    }
    return health;
  };
  CHECK_FALSE(after_windows(6, 20).lost());
  CHECK(after_windows(12, 20).lost());
  CHECK(after_windows(12, 20).outlived());
  CHECK_FALSE(after_windows(40, 14).lost());
  CHECK_FALSE(after(12, 12).outlived());
}

TEST_CASE("health: two hundred misses in a row are a detour, three hundred are a change",
          "[follow]") {
  Health health;
  for (int call = 0; call < 200; ++call) {
    health.note(false, 100'000, 10'000);
  }
  CHECK_FALSE(health.lost());
  for (int call = 0; call < 100; ++call) {
    health.note(false, 100'000, 10'000);
  }
  CHECK(health.lost());
}

}  // namespace
}  // namespace memo
