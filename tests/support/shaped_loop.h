// A loop whose sizes change in every iteration, by rules that the tokens of an iteration give. For
// tests only.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "tests/support/engines.h"

namespace memo::testing {

inline constexpr std::size_t kCalls = 24;

// Each step of the loop asks from a call stack of its own.
template <std::size_t site>
[[gnu::noinline]] Block take_from(Driver& driver, std::uint64_t bytes) {
  const Block block = driver.take(bytes);
  asm volatile("" ::"i"(site));  // keeps the functions apart, and the calls from the tail
  return block;
}
using Take = Block (*)(Driver&, std::uint64_t);
template <std::size_t... sites>
constexpr std::array<Take, sizeof...(sites)> takes(std::index_sequence<sites...>) {
  return {take_from<sites>...};
}

// Layers of four calls around a residual: sizes grow with the tokens, one with their square.
struct ShapedLoop {
  Driver& driver;
  std::uint64_t extra = 0;  // bytes of a call before each iteration that belongs to no rule

  static std::uint64_t bytes(std::size_t call, std::uint64_t tokens) {
    switch (call % 4) {
      case 1:
        return 96 * tokens * tokens;
      case 2:
        return 3072 * 4 * tokens;
      default:
        return 3072 * tokens;
    }
  }
  void iterate(std::uint64_t tokens) {
    static constexpr std::array<Take, kCalls> kTakes = takes(std::make_index_sequence<kCalls>());
    if (extra != 0) {
      driver.release(driver.take(extra));
    }
    for (std::size_t call = 0; call < kCalls; ++call) {
      // The residual outlives its layer; all is over when the iteration is.
      const auto lifetime =
          static_cast<std::uint32_t>(std::min<std::size_t>(call % 4 == 0 ? 6 : 2, kCalls - call));
      driver.keep(kTakes[call](driver, bytes(call, tokens)), lifetime);
    }
  }
};

}  // namespace memo::testing
