// The validator: what it accepts and each reason for which it refuses.
#include "dsa/validate.h"

#include <catch2/catch.hpp>
#include <limits>

using dsa::Buffer;
using dsa::Plan;
using dsa::Problem;
using dsa::validate;

namespace {

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();

Problem two(Buffer a, Buffer b) {
  return Problem{{std::move(a), std::move(b)}};
}

}  // namespace

TEST_CASE("validate: half-open lifetimes may share memory end to end", "[planner]") {
  const Problem problem =
      two({.lower = 0, .upper = 2, .size = 4}, {.lower = 2, .upper = 3, .size = 4});
  CHECK(validate(problem, Plan{{0, 0}, 4}));
}

TEST_CASE("validate: names the pair that overlaps", "[planner]") {
  const Problem problem =
      two({.lower = 0, .upper = 3, .size = 4}, {.lower = 2, .upper = 5, .size = 4});
  CHECK(validate(problem, Plan{{0, 4}, 8}));
  const auto verdict = validate(problem, Plan{{0, 3}, 7});
  CHECK_FALSE(verdict);
  CHECK(verdict.i + verdict.j == 1);
}

TEST_CASE("validate: a buffer inside another's addresses is found", "[planner]") {
  const Problem problem =
      two({.lower = 0, .upper = 9, .size = 10}, {.lower = 3, .upper = 5, .size = 2});
  CHECK_FALSE(validate(problem, Plan{{0, 4}, 10}));
  CHECK_FALSE(validate(problem, Plan{{0, 0}, 10}));
  CHECK(validate(problem, Plan{{0, 10}, 12}));
}

TEST_CASE("validate: memory is free during a gap and only then", "[planner]") {
  const Buffer holed{.lower = 0, .upper = 9, .size = 8, .gaps = {{2, 4}, {6, 7}}};
  CHECK(validate(two(holed, {.lower = 2, .upper = 4, .size = 8}), Plan{{0, 0}, 8}));
  CHECK_FALSE(validate(two(holed, {.lower = 2, .upper = 5, .size = 8}), Plan{{0, 0}, 8}));
  CHECK_FALSE(validate(two(holed, {.lower = 5, .upper = 6, .size = 8}), Plan{{0, 0}, 8}));
}

TEST_CASE("validate: a gap at the start of a lifetime shortens it", "[planner]") {
  const Buffer late{.lower = 0, .upper = 9, .size = 8, .gaps = {{0, 4}}};
  CHECK(validate(two(late, {.lower = 0, .upper = 4, .size = 8}), Plan{{0, 0}, 8}));
  CHECK_FALSE(validate(two(late, {.lower = 5, .upper = 6, .size = 8}), Plan{{0, 0}, 8}));
}

TEST_CASE("validate: alignment, fixed offsets, height and count are checked", "[planner]") {
  const Problem problem{{{.lower = 0, .upper = 1, .size = 5, .alignment = 4, .fixed = 8}}};
  CHECK(validate(problem, Plan{{8}, 13}));
  CHECK_FALSE(validate(problem, Plan{{4}, 9}));
  CHECK_FALSE(validate(problem, Plan{{8}, 12}));
  CHECK_FALSE(validate(problem, Plan{{}, 0}));
  const Problem aligned{{{.lower = 0, .upper = 1, .size = 5, .alignment = 4}}};
  CHECK_FALSE(validate(aligned, Plan{{6}, 11}));
  CHECK_FALSE(validate(aligned, Plan{{-4}, 1}));
  CHECK_FALSE(validate(aligned, Plan{{kMax - 3}, kMax}));
}

TEST_CASE("validate: ill-formed problems are refused", "[planner]") {
  const auto refused = [](Buffer buffer) { return !validate(Problem{{std::move(buffer)}}); };
  CHECK(refused({.lower = 1, .upper = 1, .size = 1}));
  CHECK(refused({.lower = 2, .upper = 1, .size = 1}));
  CHECK(refused({.lower = 0, .upper = 1, .size = -1}));
  CHECK(refused({.lower = 0, .upper = 1, .size = 1, .alignment = 0}));
  CHECK(refused({.lower = 0, .upper = 9, .size = 1, .gaps = {{3, 3}}}));
  CHECK(refused({.lower = 0, .upper = 9, .size = 1, .gaps = {{5, 6}, {3, 4}}}));
  CHECK(refused({.lower = 0, .upper = 9, .size = 1, .gaps = {{8, 10}}}));
  CHECK(refused({.lower = 0, .upper = 1, .size = 1, .alignment = 4, .fixed = 2}));
  CHECK(refused({.lower = 0, .upper = 1, .size = 2, .fixed = kMax - 1}));
  CHECK_FALSE(refused({.lower = 0, .upper = 1, .size = kMax}));
}

TEST_CASE("validate: sums over 63 bits are refused", "[planner]") {
  const Buffer half{.lower = 0, .upper = 1, .size = kMax / 2 + 1};
  CHECK_FALSE(validate(two(half, half)));
  CHECK(validate(two(half, {.lower = 0, .upper = 1, .size = kMax / 2})));
  CHECK_FALSE(validate(two({.lower = 0, .upper = 1, .size = 10, .fixed = kMax - 10},
                           {.lower = 0, .upper = 1, .size = 1})));
}
