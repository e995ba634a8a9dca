// A block that realloc moves: what Engine::carry() makes of it.
#include <catch2/catch.hpp>
#include <cstring>

#include "tests/support/engines.h"
#include "tests/support/spaces.h"

namespace memo {
namespace {

using testing::holds;
using testing::OwnEngine;

constexpr std::uint64_t kBlock = 12 << 20;

char* take(Engine& engine, std::uint64_t bytes) {
  auto* start = static_cast<char*>(engine.allocate({bytes, 16, Op::k_malloc, false}));
  REQUIRE(start != nullptr);
  return start;
}

TEST_CASE("engine: a block that grows elsewhere is not there twice", "[engine]") {
  OwnEngine own;
  Engine& engine = own.engine;
  testing::in_thread([&] {
    const std::uint64_t bytes = kBlock;
    char* const from = take(engine, bytes);
    std::memset(from, 3, bytes);
    char* const to = take(engine, 2 * kBlock);
    REQUIRE(engine.carry(from, to, bytes));
    CHECK(engine.free(from, true));
    CHECK_FALSE(engine.free(from, true));
    CHECK(holds(to, bytes, 3));
    CHECK(testing::resident_bytes(from, bytes) == 0);
    CHECK(testing::resident_bytes(to, 2 * kBlock) == bytes);
    CHECK(engine.lanes.shared().pool.held().dirty_bytes() == 0);
    CHECK(engine.lanes.valid());
  });
}

TEST_CASE(
    "engine: what is carried to memory at hand, is little, or a part of a block is only copied",
    "[engine]") {
  OwnEngine own;
  Engine& engine = own.engine;
  testing::in_thread([&] {
    std::uint64_t bytes = kBlock;
    std::uint64_t carried = kBlock;
    bool at_hand = false;
    SECTION("at hand") {
      at_hand = true;
    }
    SECTION("little") {
      bytes = carried = kBlock / 3;
    }
    SECTION("a part") {
      carried = kBlock / 6 * 5;
    }
    char* const from = take(engine, bytes);
    std::memset(from, 3, bytes);
    char* const to = take(engine, bytes + kBlock);
    if (at_hand) {
      std::memset(to, 1, bytes);
    }
    CHECK_FALSE(engine.carry(from, to, carried));
    CHECK(holds(to, carried, 3));
    CHECK(holds(from, bytes, 3));
    // To what is not the engine's.
    char* const other = static_cast<char*>(os::map(bytes));
    REQUIRE(other != nullptr);
    CHECK_FALSE(engine.carry(from, other, bytes));
    CHECK(holds(other, bytes, 3));
    CHECK(holds(from, bytes, 3));
    os::unmap(other, bytes);
  });
}

}  // namespace
}  // namespace memo
