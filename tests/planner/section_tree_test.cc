// Which nodes of a segment tree cover a span, against each section asked one by one.
#include "planner/section_tree.h"

#include <catch2/catch.hpp>
#include <random>
#include <vector>

#include "tests/support/problems.h"

namespace dsa {
namespace {

TEST_CASE("section tree: a section of the span lies below one covering node, another below none",
          "[planner]") {
  const auto seed = Catch::rngSeed();
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  for (std::size_t buffers = 1; buffers <= 200; buffers += 1 + buffers / 4) {
    const Model model(testing::random_problem(
        {.buffers = buffers, .horizon = static_cast<Time>(buffers) + 1}, seed + buffers));
    const SectionTree tree(model);
    const auto sections = static_cast<Section>(model.load.size());
    for (int round = 0; round < 20 && sections > 0; ++round) {
      std::uniform_int_distribution<Section> any(0, sections);
      Span span{any(random), any(random)};
      if (span.lower > span.upper) {
        std::swap(span.lower, span.upper);
      }
      std::vector<int> covers(tree.nodes());
      std::size_t visits = 0;
      tree.for_each_cover(span, [&](std::size_t node) {
        REQUIRE(node > 0);
        REQUIRE(node < tree.nodes());
        ++covers[node];
        ++visits;
      });
      for (Section section = 0; section < sections; ++section) {
        REQUIRE(tree.is_leaf(tree.leaf(section)));
        int above = 0;
        tree.for_each_above(section, [&](std::size_t node) { above += covers[node]; });
        CAPTURE(span.lower, span.upper, section);
        CHECK(above == (span.lower <= section && section < span.upper ? 1 : 0));
      }
      CHECK(visits <= 2 * static_cast<std::size_t>(std::bit_width(tree.nodes())));
    }
  }
}

}  // namespace
}  // namespace dsa
