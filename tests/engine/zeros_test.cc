// Blocks of zeros: which of them count as written.
#include <catch2/catch.hpp>
#include <cstring>

#include "tests/support/engines.h"
#include "tests/support/spaces.h"

namespace memo {
namespace {

constexpr std::uint64_t kBytes = 1 << 20;

char* take(Engine& engine, std::uint64_t bytes, bool zero) {
  return static_cast<char*>(engine.allocate({bytes, 64, Op::k_malloc, zero}));
}

TEST_CASE("engine: zeros that a program writes count as written, if it did not ask for zeros",
          "[engine]") {
  const bool asked = GENERATE(false, true);
  CAPTURE(asked);
  testing::drive([&](Engine& engine, const testing::Driver&, const Lane&) {
    for (const std::uint64_t more : {9UL, 1UL, 5UL, 2UL, 7UL, 11UL, 3UL}) {  // no loop
      const std::uint64_t bytes = kBytes + (more << 12);
      char* const mask = take(engine, bytes, asked);
      std::memset(mask, 0, bytes);
      engine.free(mask);
    }
    char* const old = take(engine, kBytes, false);
    std::memset(old, 1, kBytes);
    engine.free(old);
    // What is written is cleared, what is read at most costs no memory.
    char* const clear = take(engine, kBytes, true);
    REQUIRE(clear == old);
    CHECK(testing::resident_bytes(clear, kBytes) == (asked ? 0 : kBytes));
    engine.free(clear);
  });
}

}  // namespace
}  // namespace memo
