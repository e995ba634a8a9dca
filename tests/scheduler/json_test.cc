// Graph files: what is read, and what is said about files that make no sense.
#include "schedule/json.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "dsa/planner.h"
#include "schedule/validate.h"
#include "tests/scheduler/graphs.h"

namespace schedule {
namespace {

std::string graph_text(const std::string& tensors, const std::string& nodes,
                       const std::string& outputs = "[]") {
  return "{\"format\": \"memomalloc-graph\", \"version\": 1, \"name\": \"g\",\n\"tensors\": [\n" +
         tensors + "],\n\"nodes\": [\n" + nodes + "],\n\"outputs\": " + outputs + "}\n";
}

const char* const kTensors = R"({"name": "x", "bytes": 8, "kind": "input"},
{"name": "a", "bytes": 16},
{"name": "v", "alias_of": "a"},
{"name": "b", "bytes": 16}
)";

TEST_CASE("graph file: views, workspaces and overwriting count as documented", "[schedule]") {
  GraphError error;
  const auto graph = read_graph(graph_text(kTensors, R"(
{"name": "make", "inputs": ["x"], "outputs": ["a"], "workspace": 100},
{"name": "view", "inputs": ["a"], "outputs": ["v"]},
{"name": "relu", "inputs": ["v"], "outputs": ["b"], "overwrites": [["b", "v"]]}
)",
                                           "[\"b\"]"),
                                error);
  REQUIRE(graph);
  const Verdict verdict = validate(*graph, {0, 1, 2});
  REQUIRE(verdict.reason.empty());
  CHECK(verdict.peak == 116);  // a and the workspace
  CHECK(verdict.peak_node == 0);
  CHECK(verdict.resident == 8);
  CHECK_FALSE(validate(*graph, {0, 2, 1}));  // relu reads the view
  CHECK_FALSE(validate(*graph, {0, 1}));
  CHECK_FALSE(validate(*graph, {0, 1, 1}));

  Outcome outcome;
  outcome.order = {0, 1, 2};
  const Placement apart = placement(*graph, outcome.order, false);
  CHECK(apart.problem.buffers.size() == 3);
  const Placement shared = placement(*graph, outcome.order, true);
  CHECK(shared.problem.buffers.size() == 2);
  const dsa::Plan plan = *dsa::plan(shared.problem).plan;
  const auto written = nlohmann::json::parse(write_order(*graph, outcome, true, &plan));
  CHECK(written["order"] == nlohmann::json({"make", "view", "relu"}));
  CHECK(written["offsets"]["a"] == written["offsets"]["b"]);
}

struct Broken {
  std::string tensors;
  std::string nodes;
  std::size_t line;
  std::string reason;  // a part of it
};

TEST_CASE("graph file: each kind of nonsense is named with its line", "[schedule]") {
  const std::string all = kTensors;
  const auto node = [](const std::string& name, const std::string& inputs,
                       const std::string& outputs, const std::string& more = "") {
    return "{\"name\": \"" + name + "\", \"inputs\": [" + inputs + "], \"outputs\": [" + outputs +
           "]" + more + "}";
  };
  const std::string rest =
      ",\n" + node("view", "\"a\"", "\"v\"") + ",\n" + node("end", "\"v\"", "\"b\"") + "\n";
  const std::vector<Broken> cases{
      {all, node("loop", "\"b\"", "\"a\"") + rest, 9, "'loop' is part of a cycle"},
      {all, node("make", "\"x\"", "\"a\"", ", \"after\": [\"end\"]") + rest, 9, "cycle"},
      {all, node("end", "\"x\"", "\"a\"") + rest, 11, "two nodes are called 'end'"},
      {all + ",{\"name\": \"x\", \"bytes\": 1}\n", node("make", "\"x\"", "\"a\"") + rest, 7,
       "two tensors are called 'x'"},
      {all, node("make", "\"x\", \"gone\"", "\"a\"") + rest, 9,
       "'make' refers to the tensor \"gone\""},
      {all + ",{\"name\": \"free\", \"bytes\": 1}\n", node("make", "\"x\"", "\"a\"") + rest, 7,
       "'free' dangles"},
      {all + ",{\"name\": \"y\", \"bytes\": 1}\n", node("make", "\"y\"", "\"a\"") + rest, 10,
       "'make' reads tensor 'y', which no node makes"},
      {all + ",{\"name\": \"n\"}\n", node("make", "\"x\"", "\"a\", \"n\"") + rest, 7,
       "'n', made by node 'make', has no size"},
      {all + ",{\"name\": \"n\", \"bytes\": -1}\n", node("make", "\"x\"", "\"a\", \"n\"") + rest, 7,
       "whole number of bytes"},
      {all + ",{\"name\": \"n\", \"bytes\": 9223372036854775807}\n",
       node("make", "\"x\"", "\"a\", \"n\"") + rest, 7, "add up"},
      {all, node("make", "\"x\"", "\"a\", \"v\"") + rest, 10,
       "'view' makes tensor 'v', which node 'make' makes already"},
      {all, node("make", "\"a\"", "\"x\"") + rest, 9, "which is a weight or an input"},
      {all, R"({"name": "flat", "inputs": "x"})", 9, "node 'flat': \"inputs\" must be a list"},
      {all, node("make", "\"x\"", "\"a\"", ", \"after\": [\"nobody\"]") + rest, 9, "no such node"},
      {all, node("early", "\"a\"", "") + ",\n" + node("make", "\"x\"", "\"a\"") + rest, 9,
       "'early' stands before node 'make'"},
      {all, node("make", "\"x\"", "\"a\"", ", \"overwrites\": [[\"b\", \"x\"]]") + rest, 9,
       "must be an input and an output"},
  };
  for (const Broken& broken : cases) {
    GraphError error;
    CAPTURE(broken.reason);
    CHECK_FALSE(read_graph(graph_text(broken.tensors, broken.nodes), error));
    CHECK(error.line == broken.line);
    CHECK_THAT(error.reason, Catch::Contains(broken.reason));
  }
  GraphError error;
  CHECK_FALSE(read_graph("{\n\"format\": }", error));
  CHECK(error.line == 2);
  CHECK_FALSE(read_graph("[1, 2]", error));
  CHECK_THAT(error.reason, Catch::Contains("not a graph"));
  const std::string deep(1'000'000, '[');
  CHECK_FALSE(read_graph("{\"format\": " + deep + std::string(deep.size(), ']') + "}", error));
  CHECK_THAT(error.reason, Catch::Contains("nested too deeply"));
  CHECK(read_graph(
      graph_text(R"({"name": "\\\"[[", "bytes": 1})", R"({"name": "n", "outputs": ["\\\"[["]})"),
      error));
}

TEST_CASE("graph file: keys stand in any order, unknown ones are passed over", "[schedule]") {
  GraphError error;
  const auto graph = read_graph(R"({
"made_by": {"nodes": [{"name": "other", "inputs": ["no"]}], "tensors": [[{"name": "no"}]]},
"outputs": ["b"],
"nodes": [{"workspace": 7, "note": [["inputs", {"name": "no"}]], "outputs": ["b"], "inputs": ["a"],
           "attributes": {"axis": 1, "inputs": ["no"]}, "op": "relu", "name": "relu"}],
"tensors": [{"kind": "input", "bytes": 8, "name": "a"}, {"shape": [2, 2], "bytes": 16, "name": "b"}],
"version": 1, "format": "memomalloc-graph", "name": "first", "name": "g"})",
                                error);
  INFO(error.line << ": " << error.reason);
  REQUIRE(graph);
  CHECK(graph->name == "g");
  REQUIRE(graph->nodes.size() == 1);
  CHECK(graph->nodes[0].name == "relu");
  CHECK(graph->nodes[0].op == "relu");
  CHECK(graph->nodes[0].workspace == 7);
  CHECK(graph->nodes[0].inputs == std::vector<TensorId>{0});
  CHECK(graph->nodes[0].outputs == std::vector<TensorId>{1});
  REQUIRE(graph->tensors.size() == 2);
  CHECK(graph->tensors[0].kind == TensorKind::kInput);
  CHECK(graph->tensors[1].bytes == 16);
  CHECK(graph->tensors[1].output);
}

TEST_CASE("graph file: a value of the wrong kind is named with its line", "[schedule]") {
  const std::string all = kTensors;
  const std::string make = R"({"name": "make", "inputs": ["x"], "outputs": ["a"]})";
  const std::vector<Broken> cases{
      {all + ",{\"name\": \"n\",\n\"bytes\": [1]}", make, 7, "0 or more, not a list"},
      {all + ",{\"name\": \"n\", \"bytes\": 9223372036854775808}", make, 7,
       "not 9223372036854775808"},
      {all + ",{\"name\": \"n\", \"kind\": {\"name\": \"x\"}}", make, 7, "the kind an object"},
      {all + ",{\n\n\"name\": \"n\", \"kind\": \"odd\"}", make, 9, "the kind \"odd\""},
      {all + ",{\n\"bytes\": 1}", make, 7, "each tensor needs a \"name\""},
      {all + ",{\"name\": 5}", make, 7, "each tensor needs a \"name\""},
      {all + ",[{\"name\": \"n\"}]", make, 7, "each tensor needs a \"name\""},
      {all, "\"make\"", 9, "each node needs a \"name\""},
      {all, R"({"name": "make", "inputs": ["x", null]})", 9, "refers to the tensor null"},
      {all, R"({"name": "make", "overwrites": ["x", "a"]})", 9, "holds pairs"},
      {all, R"({"name": "make", "overwrites": [["x", "a", "b"]]})", 9, "holds pairs"},
      {all, R"({"name": "make", "overwrites": [{"x": "a", "y": "b"}]})", 9, "holds pairs"},
      {all, R"({"name": "make", "after": {"x": "a"}})", 9, "\"after\" must be a list"},
      {all, R"({"name": "make", "workspace": 1e999})", 9, "this is not JSON"},
      // The name stands before, in a field that says nothing.
      {all + ",{\"name\": \"y\", \"bytes\": 1, \"note\": {\"name\": \"free\"}}\n" +
           ",{\"name\": \"free\", \"bytes\": 1}\n",
       make + R"(,{"name": "use", "inputs": ["a"], "outputs": ["v", "y"]},
{"name": "end", "inputs": ["v", "y"], "outputs": ["b"]})",
       8, "'free' dangles"},
  };
  for (const Broken& broken : cases) {
    GraphError error;
    CAPTURE(broken.reason, broken.tensors, broken.nodes);
    CHECK_FALSE(read_graph(graph_text(broken.tensors, broken.nodes), error));
    CHECK(error.line == broken.line);
    CHECK_THAT(error.reason, Catch::Contains(broken.reason));
  }
  GraphError error;
  CHECK_FALSE(read_graph(graph_text(all, make, "\"b\""), error));
  CHECK_THAT(error.reason, Catch::Contains("\"outputs\" must be a list"));
  CHECK_FALSE(read_graph(graph_text("", "", "[\"gone\"]"), error));
  CHECK(error.line == 6);
  CHECK_THAT(error.reason, Catch::Contains("\"outputs\" refers to the tensor \"gone\""));
}

// Each tensor is a view of the one before: a walk per tensor would be quadratic, and one that
// recurs as deep.
TEST_CASE("graph file: a chain of 10^5 views is one storage", "[schedule]") {
  constexpr int kViews = 100'000;
  Graph graph;
  for (int i = 0; i < kViews; ++i) {
    Tensor tensor;
    tensor.name = std::string("t").append(std::to_string(i));
    tensor.bytes = i == 0 ? 8 : 0;
    if (i > 0) {
      tensor.alias_of = i - 1;
    }
    graph.tensors.push_back(tensor);
    Node node;
    node.name = tensor.name;
    node.inputs.assign(i > 0 ? 1 : 0, i - 1);
    node.outputs = {i};
    graph.nodes.push_back(node);
  }
  const Outcome outcome = schedule(graph, "portfolio", {});
  const Verdict verdict = validate(graph, outcome.order);
  CHECK(verdict.reason == "");
  CHECK(verdict.peak == 8);
  CHECK(outcome.optimal);
  const Placement placed = placement(graph, outcome.order);
  CHECK(placed.problem.buffers.size() == 1);
}

TEST_CASE("schedule: without time, every strategy answers with a valid order", "[schedule]") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const Graph graph = test::random_graph(seed, {.nodes = 60});
    for (const Strategy& strategy : strategies()) {
      CAPTURE(seed, std::string(strategy.name));
      const Outcome outcome = schedule(graph, strategy.name, {.seconds = 0});
      const Verdict verdict = validate(graph, outcome.order);
      CHECK(verdict.reason == "");
      CHECK(verdict.peak == outcome.peak);
      CHECK(outcome.peak <= outcome.framework_peak);
    }
  }
}

}  // namespace
}  // namespace schedule
