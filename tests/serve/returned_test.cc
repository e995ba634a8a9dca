#include "src/serve/returned.h"

#include <catch2/catch.hpp>

namespace memo {
namespace {

TEST_CASE("returned: the second block of a size is kept", "[serve]") {
  Returned returned;
  CHECK(returned.first(16 << 20));
  CHECK(returned.first(24 << 20));
  CHECK_FALSE(returned.first(16 << 20));
  CHECK_FALSE(returned.first(24 << 20));
}

TEST_CASE("returned: of blocks that grow a little each time the most are kept", "[serve]") {
  constexpr std::uint64_t kFrom = 16 << 20;
  constexpr std::uint64_t kTo = 64 << 20;
  Returned returned;
  unsigned given_back = 0;
  for (std::uint64_t bytes = kFrom; bytes < kTo; bytes += 32 << 10) {
    given_back += returned.first(bytes) ? 1U : 0U;
  }
  CHECK(given_back == 16);  // eight for each doubling
}

TEST_CASE("returned: what is owed is given back once", "[serve]") {
  Returned returned;
  CHECK_FALSE(returned.pays(4096));
  returned.owe(10'000);
  CHECK(returned.pays(8192));
  CHECK(returned.owed() == 10'000 - 8192);
  CHECK(returned.pays(8192));
  CHECK(returned.owed() == 0);
  CHECK_FALSE(returned.pays(8192));
}

}  // namespace
}  // namespace memo
