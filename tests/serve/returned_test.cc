#include "src/serve/returned.h"

#include <catch2/catch.hpp>

namespace memo {
namespace {

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
