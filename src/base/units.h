// Numbers with a unit: granules, nanoseconds and steps are types of their own, so that none becomes
// another, or a plain number, by itself. Hot, pure; a unit costs what its number costs.
//
// A plain std::uint64_t is bytes where nothing else is said: malloc, mmap and memcpy take and give
// those, and a type for them would be taken off and put on again at each call. What is not bytes is
// a unit, and so no two of the four mix unseen. Below are the ways from bytes to granules and back.
//
// A place is the number of what lies before it: the fourth granule of a space is Granules{3}.
#pragma once

#include <compare>
#include <cstdint>

#include "src/base/bits.h"

namespace memo {

// `Tag` tells units apart; `Number` is an unsigned integer.
template <typename Tag, typename Number>
class Quantity {
 public:
  using Count = Number;

  constexpr Quantity() = default;
  constexpr explicit Quantity(Number count) : count_(count) {}
  // The plain number.
  [[nodiscard]] constexpr Number count() const { return count_; }
  // The most that there can be.
  static constexpr Quantity max() { return Quantity(static_cast<Number>(-1)); }

  friend constexpr auto operator<=>(Quantity, Quantity) = default;

  // As the number's: from 2^bits on they go round.
  constexpr Quantity& operator+=(Quantity other) { return *this = *this + other; }
  constexpr Quantity& operator-=(Quantity other) { return *this = *this - other; }
  constexpr Quantity& operator++() { return *this += Quantity(1); }
  constexpr Quantity& operator--() { return *this -= Quantity(1); }
  friend constexpr Quantity operator+(Quantity a, Quantity b) {
    return Quantity(a.count_ + b.count_);
  }
  friend constexpr Quantity operator-(Quantity a, Quantity b) {
    return Quantity(a.count_ - b.count_);
  }
  friend constexpr Quantity operator*(Quantity a, Number times) {
    return Quantity(a.count_ * times);
  }
  friend constexpr Quantity operator*(Number times, Quantity a) { return a * times; }
  friend constexpr Quantity operator/(Quantity a, Number parts) {
    return Quantity(a.count_ / parts);
  }
  // How many times `b` is contained in `a`, and what is left then.
  friend constexpr Number operator/(Quantity a, Quantity b) { return a.count_ / b.count_; }
  friend constexpr Quantity operator%(Quantity a, Quantity b) {
    return Quantity(a.count_ % b.count_);
  }

 private:
  Number count_ = 0;
};

// Of memory, kGranule bytes each.
using Granules = Quantity<struct GranulesTag, std::uint64_t>;
// Of a clock, or between two moments of it.
using Nanos = Quantity<struct NanosTag, std::uint64_t>;
// Of a plan, or of what lies between two steps: the first is StepIndex{0}.
using StepIndex = Quantity<struct StepIndexTag, std::uint32_t>;

// Blocks in a slab begin and end on granules; the page map has one byte for each.
inline constexpr std::uint64_t kGranule = 4096;  // bytes
// Above this no block is memory of any machine, and planning it would overflow. Bytes.
inline constexpr std::uint64_t kMaxBlock = 1ULL << 46U;

// Granules that a block of `bytes` takes.
constexpr Granules granules_of(std::uint64_t bytes) {
  return Granules{(bytes + kGranule - 1) / kGranule};
}
// Whole granules that `bytes` hold, and the granule in which the byte at that offset lies.
constexpr Granules granules_in(std::uint64_t bytes) {
  return Granules{bytes / kGranule};
}
constexpr std::uint64_t bytes_of(Granules granules) {
  return granules.count() * kGranule;
}

// As for numbers (src/base/bits.h): to a multiple of `unit`, a power of two.
constexpr Granules round_up(Granules x, Granules unit) {
  return Granules{round_up(x.count(), unit.count())};
}
constexpr Granules round_down(Granules x, Granules unit) {
  return Granules{round_down(x.count(), unit.count())};
}

}  // namespace memo
