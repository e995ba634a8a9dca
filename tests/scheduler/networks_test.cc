// Real networks of at most 600 operators: orders that the judge accepts, proved optimal, at known
// peaks.
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "dsa/planner.h"
#include "schedule/json.h"
#include "schedule/schedule.h"
#include "schedule/validate.h"

namespace schedule {
namespace {

const char* const kFolder = "tests/golden/graphs";

Graph load(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  GraphError error;
  auto graph = read_graph(text.str(), error);
  INFO(path << ":" << error.line << ": " << error.reason);
  REQUIRE(graph);
  return *graph;
}

TEST_CASE("networks: the optimum is proved, and expected.csv holds it", "[schedule]") {
  std::ifstream table(std::string(kFolder).append("/expected.csv"));
  std::string line;
  std::getline(table, line);
  REQUIRE(line == "graph,coalesce,framework_peak,peak");
  int rows = 0;
  while (std::getline(table, line)) {
    std::ranges::replace(line, ',', ' ');
    std::istringstream fields(line);
    std::string name;
    bool coalesce = false;
    Bytes framework_peak = 0;
    Bytes peak = 0;
    REQUIRE(fields >> name >> coalesce >> framework_peak >> peak);
    CAPTURE(name, coalesce);
    const Graph graph = load(std::filesystem::path(kFolder) / (name + ".json"));
    Options options;
    options.coalesce = coalesce;
    const Outcome outcome = schedule(graph, "portfolio", options);
    const Verdict verdict = validate(graph, outcome.order, coalesce);
    REQUIRE(verdict.reason.empty());
    CHECK(verdict.peak == outcome.peak);
    CHECK(outcome.framework_peak == framework_peak);
    CHECK(outcome.peak == peak);
    CHECK(outcome.optimal);
    const Placement placed = placement(graph, outcome.order, coalesce);
    CHECK(dsa::lower_bound(placed.problem) == peak);
    ++rows;
  }
  REQUIRE(rows >= 10);
}

TEST_CASE("networks: a training step is far below the framework's order", "[schedule]") {
  const Graph graph = load(std::filesystem::path(kFolder) / "resnet18_train.json");
  const Outcome outcome = schedule(graph, "list", {});
  CHECK(outcome.peak * 2 < outcome.framework_peak);
}

}  // namespace
}  // namespace schedule
