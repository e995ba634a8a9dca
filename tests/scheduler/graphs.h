// Random small graphs for the scheduler's tests, built from a seed alone.
#pragma once

#include <algorithm>
#include <random>
#include <string>

#include "schedule/graph.h"

namespace schedule::test {

struct Shape {
  int nodes = 8;
  int most_bytes = 20;
  bool extras = true;   // weights, views, overwrites, control edges, workspaces, several outputs
  bool forest = false;  // each result is read at most once
};

inline Graph random_graph(std::uint64_t seed, const Shape& shape = {}) {
  std::mt19937_64 random(seed);
  const auto below = [&](int bound) {
    return static_cast<int>(random() % static_cast<unsigned>(bound));
  };
  Graph graph;
  graph.name = "random";
  const auto add_tensor = [&](TensorKind kind) -> Tensor& {
    Tensor tensor;
    tensor.name = std::string("t").append(std::to_string(graph.tensors.size()));
    tensor.bytes = 1 + below(shape.most_bytes);
    tensor.kind = kind;
    graph.tensors.push_back(tensor);
    return graph.tensors.back();
  };
  add_tensor(TensorKind::kInput);
  add_tensor(TensorKind::kWeight);
  std::vector<bool> read(static_cast<std::size_t>(3 * shape.nodes + 2));
  for (int n = 0; n < shape.nodes; ++n) {
    Node node;
    node.name = std::string("n").append(std::to_string(n));
    const auto made = static_cast<int>(graph.tensors.size());
    for (int i = below(3) + (n > 0 ? 1 : 0); i > 0; --i) {
      const auto t = static_cast<TensorId>(std::max(0, made - 1 - below(7)));
      if (std::ranges::count(node.inputs, t) == 0 &&
          !(shape.forest && read[static_cast<std::size_t>(t)])) {
        node.inputs.push_back(t);
        read[static_cast<std::size_t>(t)] = true;
      }
    }
    for (int o = shape.extras && below(4) == 0 ? 2 : 1; o > 0; --o) {
      Tensor& output = add_tensor(TensorKind::kActivation);
      node.outputs.push_back(static_cast<TensorId>(graph.tensors.size() - 1));
      output.output = below(8) == 0;
      if (shape.extras && !node.inputs.empty() && below(5) == 0) {
        output.alias_of = node.inputs[0];
        output.bytes = 0;
      } else if (shape.extras && !node.inputs.empty() && below(2) == 0) {
        const TensorId input =
            node.inputs[static_cast<std::size_t>(below(static_cast<int>(node.inputs.size())))];
        if (!graph.tensors[static_cast<std::size_t>(input)].alias_of) {
          output.bytes = graph.tensors[static_cast<std::size_t>(input)].bytes;
        }
        node.overwrites.push_back({node.outputs.back(), input});
      }
    }
    if (shape.extras && n > 2 && below(6) == 0) {
      node.after.push_back(below(n));
    }
    if (shape.extras && below(5) == 0) {
      node.workspace = below(shape.most_bytes);
    }
    graph.nodes.push_back(node);
  }
  return graph;
}

}  // namespace schedule::test
