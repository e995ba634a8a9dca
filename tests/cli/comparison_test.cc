// Statistics of `compare`, and the LD_PRELOAD lists that commands are started with.
#include "src/cli/compare/comparison.h"

#include <catch2/catch.hpp>

#include "src/cli/run/loader.h"

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

TEST_CASE("comparison page: says what was won, only where the runs do not overlap", "[cli]") {
  const auto contestant = [](const char* name, double first, double second, std::int64_t peak,
                             int runs = 4) {
    Contestant one{{.name = name, .library = "", .settings = "", .note = "as <it> is"}, {}, 0, 0};
    for (int run = 0; run < runs; ++run) {
      const double wall = run % 2 == 0 ? first : second;
      Sample sample;
      sample.usage.wall_seconds = wall;
      sample.usage.peak_rss_bytes = peak;
      one.samples.push_back(sample);
    }
    return one;
  };
  const auto has = [](const std::string& page, const char* text) {
    return page.find(text) != std::string::npos;
  };
  const std::vector<std::string> command = {"python", "a<b"};
  const std::string wins = as_page(
      {contestant("glibc", 4, 4.2, 1 << 20), contestant("memomalloc", 2, 2.1, 1 << 20)}, command);
  CHECK(has(wins, "With memomalloc: 0.50 of glibc's time, no sure difference in peak memory."));
  CHECK(has(wins, "memomalloc run -- python 'a&lt;b'"));
  CHECK(has(wins, "as &lt;it&gt; is"));
  CHECK(has(wins, "width=\"48.8\""));  // 2.05 of 4.2
  CHECK(has(wins, "M47.6 4H50.0"));    // 2 to 2.1 of it
  CHECK(!has(wins, "<script"));
  const std::string ties = as_page(
      {contestant("glibc", 2, 3, 1 << 20), contestant("memomalloc", 1, 2.5, 1 << 20)}, command);
  CHECK(has(ties, "no sure difference in time"));
  CHECK(has(ties, "memomalloc doctor -- python"));
  const std::string trade = as_page(
      {contestant("glibc", 4, 4.2, 1 << 20), contestant("memomalloc", 2, 2.1, 2 << 20)}, command);
  CHECK(has(trade, "0.50 of glibc's time, 2.00 of glibc's peak memory."));
  CHECK(has(trade, "If the one is worth the other: memomalloc run -- python"));
  const std::string few =
      as_page({contestant("glibc", 4, 4.2, 1 << 20), contestant("memomalloc", 2, 2.1, 1 << 20, 3)},
              command);
  CHECK(has(few, "With memomalloc: too few runs to tell; it takes 4 of each."));
  CHECK(has(as_page({contestant("glibc", 2, 3, 1 << 20)}, command), "Add memomalloc and glibc"));
}

TEST_CASE("comparison: the command to copy is what a shell takes for the same words", "[cli]") {
  Sample sample;
  sample.usage.wall_seconds = 1;
  const auto contestant = [&](const char* name) {
    return Contestant{{.name = name, .library = "", .settings = "", .note = ""}, {sample}, 0, 0};
  };
  const auto next = [&](const std::vector<std::string>& command) {
    const std::string text =
        answer_of({contestant("glibc"), contestant("memomalloc")}, command).next;
    return text.substr(text.find(" -- ") + 4);
  };
  CHECK(next({"python", "infer.py", "--batch=8"}) == "python infer.py --batch=8");
  CHECK(next({"sh", "-c", "echo it's $HOME", ""}) == "sh -c 'echo it'\\''s $HOME' ''");
  CHECK(answer_of({contestant("memomalloc")}, {"true"}).next.empty());
}

TEST_CASE("preload list: ours first, once, the others in their order", "[cli]") {
  CHECK(preload_list("/a/libx.so.1", "") == "/a/libx.so.1");
  CHECK(preload_list("/a/libx.so.1", "liby.so /b/libx.so:libz.so.2") ==
        "/a/libx.so.1:liby.so:libz.so.2");
}

}  // namespace
}  // namespace memo::cli
