// Blocks of zeros: what of them has memory afterwards.
#include <catch2/catch.hpp>
#include <cstring>

#include "tests/support/engines.h"
#include "tests/support/spaces.h"

namespace memo {
namespace {

constexpr std::uint64_t kBytes = 4 << 20;

char* take(Engine& engine, std::uint64_t bytes, bool zero) {
  return static_cast<char*>(engine.allocate({bytes, 64, Op::k_malloc, zero}));
}

TEST_CASE("engine: a block of zeros has memory where all of its place has", "[engine]") {
  const std::uint64_t written = GENERATE(kBytes / 8, kBytes / 4 * 3, kBytes);
  CAPTURE(written);
  testing::drive([&](Engine& engine, const testing::Driver&, const Lane&) {
    for (const std::uint64_t more : {9UL, 1UL, 5UL, 2UL, 7UL, 11UL, 3UL}) {  // no loop
      char* const other = take(engine, (1UL << 20) + (more << 12), false);
      std::memset(other, 1, (1UL << 20) + (more << 12));
      engine.free(other);
    }
    char* const old = take(engine, kBytes, false);
    std::memset(old, 1, written);
    engine.free(old);
    char* const clear = take(engine, kBytes, true);
    REQUIRE(clear == old);
    CHECK(testing::resident_bytes(clear, kBytes) == (written == kBytes ? kBytes : 0));
    CHECK(testing::holds(clear, kBytes, 0));
    engine.free(clear);
  });
}

}  // namespace
}  // namespace memo
