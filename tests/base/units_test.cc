// What does not mix is not compiled: most of this is asserted by the compiler.
#include "src/base/units.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <concepts>
#include <cstdint>
#include <functional>
#include <type_traits>

namespace memo {
namespace {

template <typename A, typename B>
concept Converts = std::is_convertible_v<A, B> || std::is_assignable_v<B&, A>;

// Whatever takes two operands, in either order.
template <typename A, typename B>
concept Mixes = requires(A a, B b) { a + b; } || requires(A a, B b) { a - b; } ||
                requires(A a, B b) { a += b; } || requires(A a, B b) { a -= b; } ||
                requires(A a, B b) { a == b; } || requires(A a, B b) { a < b; } ||
                requires(A a, B b) { a % b; };
template <typename A, typename B>
concept Apart = !Converts<A, B> && !Converts<B, A> && !Mixes<A, B> && !Mixes<B, A>;

static_assert(Mixes<Granules, Granules> && Mixes<Nanos, Nanos> && Mixes<StepIndex, StepIndex>);
static_assert(Apart<Granules, Nanos> && Apart<Granules, StepIndex> && Apart<Nanos, StepIndex>);
// A plain number is bytes, or a count of something.
static_assert(Apart<Granules, std::uint64_t> && Apart<Granules, int>);
static_assert(Apart<Nanos, std::uint64_t> && Apart<Nanos, int>);
static_assert(Apart<StepIndex, std::uint32_t> && Apart<StepIndex, std::uint64_t> &&
              Apart<StepIndex, int>);
// Nor by name: a unit is made of a number, not of another unit.
static_assert(std::is_constructible_v<Granules, std::uint64_t> &&
              !std::is_constructible_v<Granules, Nanos> &&
              !std::is_constructible_v<StepIndex, Granules> &&
              !std::is_constructible_v<std::uint64_t, Granules> &&
              !std::is_constructible_v<bool, Granules>);
// Two of a unit make no product, and no number is divided by one.
static_assert(!std::is_invocable_v<std::multiplies<>, Granules, Granules> &&
              !std::is_invocable_v<std::divides<>, std::uint64_t, Granules> &&
              !std::is_invocable_v<std::divides<>, Granules, Nanos>);
// Bytes become granules, and granules bytes, by name alone.
static_assert(!std::is_invocable_v<decltype(granules_of), Granules> &&
              !std::is_invocable_v<decltype(granules_in), Granules> &&
              !std::is_invocable_v<decltype(bytes_of), std::uint64_t> &&
              !std::is_invocable_v<decltype(bytes_of), Nanos>);

// As cheap as its number: it is passed in a register, and atomics of it take no lock.
template <typename Unit>
concept Cheap =
    std::is_trivially_copyable_v<Unit> && std::is_standard_layout_v<Unit> &&
    sizeof(Unit) == sizeof(typename Unit::Count) &&
    alignof(Unit) == alignof(typename Unit::Count) && std::atomic<Unit>::is_always_lock_free;
static_assert(Cheap<Granules> && Cheap<Nanos> && Cheap<StepIndex>);

TEST_CASE("units: are counted as numbers are", "[base]") {
  Granules granules{10};
  CHECK((granules + Granules{4}).count() == 14);
  CHECK((granules - Granules{4}).count() == 6);
  CHECK((granules * 3).count() == 30);
  CHECK((3 * granules).count() == 30);
  CHECK((granules / 4).count() == 2);
  CHECK(granules / Granules{4} == 2);
  CHECK((granules % Granules{4}).count() == 2);
  CHECK((granules += Granules{5}).count() == 15);
  CHECK((granules -= Granules{14}).count() == 1);
  CHECK((++granules).count() == 2);
  CHECK((--granules).count() == 1);
  CHECK(Granules{} < granules);
  CHECK(granules <= Granules{1});
  CHECK(granules != Granules{2});
  CHECK(Granules::max().count() == UINT64_MAX);
  CHECK(StepIndex::max().count() == UINT32_MAX);
}

TEST_CASE("units: bytes become granules and granules bytes", "[base]") {
  CHECK(granules_of(0) == Granules{0});
  CHECK(granules_of(1) == Granules{1});
  CHECK(granules_of(kGranule) == Granules{1});
  CHECK(granules_of(kGranule + 1) == Granules{2});
  CHECK(granules_in(kGranule - 1) == Granules{0});
  CHECK(granules_in(2 * kGranule + 1) == Granules{2});
  CHECK(bytes_of(Granules{3}) == 3 * kGranule);
  CHECK(round_up(Granules{9}, Granules{8}) == Granules{16});
  CHECK(sub_sat(Granules{9}, Granules{8}) == Granules{1});
  CHECK(sub_sat(Granules{8}, Granules{9}) == Granules{0});
  CHECK(round_down(Granules{9}, Granules{8}) == Granules{8});
}

}  // namespace
}  // namespace memo
