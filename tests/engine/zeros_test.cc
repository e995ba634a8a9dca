// Blocks of zeros: what of them has memory afterwards.
#include <catch2/catch.hpp>
#include <cstring>

#include "tests/support/engines.h"
#include "tests/support/spaces.h"

namespace memo {
namespace {

char* take(Engine& engine, std::uint64_t bytes, bool zero) {
  return static_cast<char*>(engine.allocate({bytes, 64, Op::k_malloc, zero}));
}

TEST_CASE("engine: a block of zeros has memory where half of its place has, a large one none",
          "[engine]") {
  const std::uint64_t bytes = GENERATE(4UL << 20, 64UL << 20);
  const std::uint64_t written = GENERATE_COPY(bytes / 8, bytes / 4 * 3, bytes);
  CAPTURE(bytes, written);
  testing::drive([&](Engine& engine, const testing::Driver&, const Lane&) {
    for (const std::uint64_t more : {9UL, 1UL, 5UL, 2UL, 7UL, 11UL, 3UL}) {  // no loop
      char* const other = take(engine, (1UL << 20) + (more << 12), false);
      std::memset(other, 1, (1UL << 20) + (more << 12));
      engine.free(other);
    }
    char* old = nullptr;
    for (int i = 0; i < 2; ++i) {
      old = take(engine, bytes, false);
      std::memset(old, 1, written);
      engine.free(old);
    }
    char* const clear = take(engine, bytes, true);
    REQUIRE(clear == old);
    const bool stays = bytes == 4UL << 20 && 2 * written >= bytes;
    CHECK(testing::resident_bytes(clear, bytes) == (stays ? written : 0));
    CHECK(testing::holds(clear, bytes, 0));
    engine.free(clear);
  });
}

}  // namespace
}  // namespace memo
