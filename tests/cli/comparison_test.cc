// Statistics of `compare`, and the LD_PRELOAD lists that commands are started with.
#include "src/cli/comparison.h"

#include <catch2/catch.hpp>

#include "src/cli/loader.h"

namespace memo::cli {
namespace {

TEST_CASE("spread: median, nearest-rank p99 and extremes", "[cli]") {
  const Spread odd = spread({5, 1, 3});
  CHECK(odd.median == 3);
  CHECK(odd.p99 == 5);
  CHECK(odd.least == 1);
  CHECK(odd.most == 5);
  CHECK(spread({4, 1, 2, 3}).median == 2.5);
  std::vector<double> hundred;
  for (int i = 100; i > 0; --i) {
    hundred.push_back(i);
  }
  CHECK(spread(hundred).p99 == 99);
  CHECK(spread({}).most == 0);
}

TEST_CASE("reported figures: the last JSON object's numbers", "[cli]") {
  const auto numbers = last_json_numbers(
      "{\"p50_ms\": 1}\n{broken\n{\"p50_ms\": 2.5, \"model\": \"x\", \"batch\": 8}\nbye\n");
  CHECK(numbers.size() == 2);
  CHECK(numbers.at("p50_ms") == 2.5);
  CHECK(numbers.at("batch") == 8);
  CHECK(last_json_numbers("nothing").empty());
}

TEST_CASE("preload list: ours first, once, the others in their order", "[cli]") {
  CHECK(preload_list("/a/libx.so.1", "") == "/a/libx.so.1");
  CHECK(preload_list("/a/libx.so.1", "liby.so /b/libx.so:libz.so.2") ==
        "/a/libx.so.1:liby.so:libz.so.2");
}

}  // namespace
}  // namespace memo::cli
