// Arithmetic that cannot surprise: rounding, logarithms, differences. Hot, pure.
#pragma once

#include <bit>
#include <cstdint>

#include "src/base/check.h"

namespace memo {

constexpr bool is_power_of_two(std::uint64_t x) {
  return std::has_single_bit(x);
}

// The least multiple of `unit` (a power of two) that is at least x. Requires x <= 2^64 - unit.
constexpr std::uint64_t round_up(std::uint64_t x, std::uint64_t unit) {
  MEMO_DCHECK(is_power_of_two(unit));
  return (x + unit - 1) & ~(unit - 1);
}
constexpr std::uint64_t round_down(std::uint64_t x, std::uint64_t unit) {
  MEMO_DCHECK(is_power_of_two(unit));
  return x & ~(unit - 1);
}

// x - y, or nothing where y is more, as C++26's std::sub_sat. Each is read once: where another
// thread changes x meanwhile, two reads in `x - std::min(x, y)` could make it go round.
template <typename T>
constexpr T sub_sat(T x, T y) {
  return x > y ? x - y : T{};
}

// Floor of the binary logarithm; requires x >= 1.
constexpr std::uint8_t log2_floor(std::uint64_t x) {
  MEMO_DCHECK(x != 0);
  return static_cast<std::uint8_t>(63 - std::countl_zero(x));
}

}  // namespace memo
