// The planner's own functions of real numbers, against the C++ library's.
#include "planner/real_functions.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <random>

TEST_CASE("real functions: they are the C++ library's but for the last places", "[planner]") {
  std::mt19937_64 random(Catch::rngSeed());
  INFO("seed " << Catch::rngSeed());
  for (int i = 0; i < 100'000; ++i) {
    const double x = static_cast<double>((random() >> (random() % 63)) + 1);
    REQUIRE(std::abs(dsa::natural_log(x) - std::log(x)) <= 1e-15 * (1 + std::log(x)));
    const double y = static_cast<double>(random() >> 11) * 0x1p-51 - 2;
    REQUIRE(std::abs(dsa::exponential(y) - std::exp(y)) <= 1e-14 * std::exp(y));
    const double z = static_cast<double>(random() >> 11) * 0x1p-20;
    REQUIRE(dsa::nearest(z) == std::llround(z));
  }
}
