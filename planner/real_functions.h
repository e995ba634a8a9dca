// Functions of real numbers by the planner's own means. A program may export `log` for itself, as
// loggers do, and the dynamic linker would give a preloaded library that one.
#pragma once

#include <bit>
#include <cstdint>

namespace dsa {

// The natural logarithm of a positive number, within a few units of the last place: for
// x = m 2^e with m near 1, log m = 2 artanh((m - 1) / (m + 1)).
inline double natural_log(double x) {
  constexpr double kLogOf2 = 0x1.62e42fefa39efp-1;
  constexpr double kRootOf2 = 0x1.6a09e667f3bcdp+0;
  const auto bits = std::bit_cast<std::uint64_t>(x);
  double exponent = static_cast<double>(bits >> 52U) - 1023;
  double part = std::bit_cast<double>((bits & ~(UINT64_C(0xfff) << 52U)) | UINT64_C(1023) << 52U);
  if (part > kRootOf2) {
    part /= 2;
    ++exponent;
  }
  const double ratio = (part - 1) / (part + 1);
  double sum = 0;
  for (int power = 21; power >= 1; power -= 2) {
    sum = sum * ratio * ratio + 1.0 / power;
  }
  return exponent * kLogOf2 + 2 * ratio * sum;
}

// e to the power of a number between -2 and 2, by its series.
inline double exponential(double x) {
  double sum = 1;
  for (int power = 24; power >= 1; --power) {
    sum = 1 + sum * x / power;
  }
  return sum;
}

// The nearest whole number to a number from 0 to 2^53.
inline std::int64_t nearest(double x) {
  const auto below = static_cast<std::int64_t>(x);
  return x - static_cast<double>(below) < 0.5 ? below : below + 1;
}

}  // namespace dsa
